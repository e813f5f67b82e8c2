/* plan_links.h - how fast the connections are that a plan uses: measured, as bench link does. */
#pragma once
#include "base/json.h"
#include "engine/engine.h"

/* Adds "links" to an object: between processes whose devices are of one group, or of groups that follow each other. An
 * empty list: all devices are here. */
int plan_links(const engine *g, const char *key_file, json *root, err *e);
