/* spec_check.h - `inferflow spec check`: every mistake of a spec file, and what it leaves unsaid of its model. */
#pragma once
#include "base/buf.h"
#include "base/err.h"

/* Checks a spec file; with a model in it (or `model_path`), against the checkpoint too. Appends what was checked; the
 * names in the file that stand for nothing; and the keys of config.json that the spec does not read: what they say may
 * be missing in it (`ignored`: --ignore-key; NULL ok). ERR_SPEC when something is wrong: of one mistake the message, of
 * more how many, and to `out` a line for each. */
int spec_check(const char *path, const char *model_path, const char *ignored, buf *out, err *e);
