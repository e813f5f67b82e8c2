/* hub_models.h - models of the hub by name: ORG/NAME[:FILE|:TYPE][@REV] where a flag takes a model. */
#pragma once
#include "app/app.h"

/* Puts the path in the cache in place of each such name among the flags of v. A file or folder of this machine that is
 * called so comes first. What is not in the cache, or not whole there, is downloaded with `yes`, or where the user says
 * so on the terminal; else ERR_NOT_FOUND. */
int hub_models_take(invocation *v, bool yes, err *e);
/* Ends the paths. */
void hub_models_free(invocation *v);
