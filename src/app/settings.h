/* settings.h - a spec's [runtime], [serve] and [generate] as defaults of a command's flags; the command line wins. */
#pragma once
#include "app/app.h"
#include "models/spec/spec.h"

/* Loads the file of --spec, if the flag is given; *out NULL otherwise. spec_free it after the command has run:
 * options point into it. */
int settings_open(spec **out, const invocation *v, err *e);
/* Sets the options of every flag group that a section of the spec speaks for. */
int settings_apply(spec *s, const invocation *v, err *e);
/* Whether the keys of the three sections are known and their values in range (`spec check`). */
int settings_check(spec *s, err *e);
