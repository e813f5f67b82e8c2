/* hub_pull.h - a model from the hub into the cache: only the files that loading needs, over several connections. */
#pragma once
#include "base/err.h"
#include "hub/hub_name.h"

enum { HUB_CONNECTIONS = 8 };

/* *path as hub_cache_find gives it; mem_free it. `endpoint` NULL: $HF_ENDPOINT, or https://huggingface.co. What has
 * come before an error stays, and the next call goes on from there; the snapshot and its name appear when all is
 * there. */
int hub_pull(const hub_name *name, const char *endpoint, int connections, char **path, err *e);
