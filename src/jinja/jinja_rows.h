/* jinja_rows.h - what templates may use by name. A new one is a row in the table of its file. */
#pragma once
#include "jinja/jinja_value.h"

/* Tables end in a row without a name. */
extern const jinja_row jinja_filters[];   /* jinja_filters.c */
extern const jinja_row jinja_tests[];     /* jinja_tests.c: they give J_BOOL */
extern const jinja_row jinja_functions[]; /* jinja_functions.c: global ones */
extern const jinja_row jinja_str_methods[], jinja_dict_methods[], jinja_list_methods[]; /* jinja_methods.c */
extern const jinja_row jinja_loop_methods[];                                            /* jinja_loop.c */

const jinja_row *jinja_row_find(const jinja_row *rows, const char *name); /* NULL: absent */
/* Binds the arguments to the row's parameters and calls it. */
jval jinja_row_call(jinja_run *r, const jinja_row *row, jval self, const jargs *given);
