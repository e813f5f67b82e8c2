/* jinja_json.h - JSON for templates: contexts come as it, and `tojson` writes it as Python's json.dumps does. */
#pragma once
#include "jinja/jinja_value.h"

/* The value of a JSON text, whose strings are marked as the user's. Beyond base/json.h it keeps what templates show:
 * 1 and 1.0 differ, and strings may hold NUL. Fails as jinja_value.h says. */
jval jinja_read_json(jinja_run *r, span text);

typedef struct json_form {
    bool ascii, sort;
    const char *indent; /* of a level; NULL: one line */
    jstr comma, colon;
} json_form;
void jinja_write_json(jinja_run *r, jtext *t, jval v, const json_form *f);
