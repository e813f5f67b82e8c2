/* ptx_vars.h - declarations of variables and of their first values. */
#pragma once
#include "tests/gpu/ptx_lex.h"

/* Bytes of a type ("b32", ".f64"): 1 of a predicate, 0 where it is none. */
int ptx_type_bytes(const char *type);
/* The space that a word names (".shared"), or -1. */
int ptx_space_of(const char *word);
/* Reads ".align 8 .b8 name[48] = {...}" behind the space; several names with commas are several variables. Does not
 * take what follows (; or a comma or a bracket). */
void ptx_variable_read(ptx_cursor *c, ptx_variable *v);
