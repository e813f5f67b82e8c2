/* jinja_format.h - Python's two ways to put values into a text. */
#pragma once
#include "jinja/jinja_value.h"

jval jinja_percent(jinja_run *r, jval text, jval values);      /* text % values */
jval jinja_format(jinja_run *r, jval text, const jargs *args); /* text.format(…) */
