/* gbnf.h - grammars as text, in llama.cpp's GBNF: rules `name ::= …`; literals "…", classes […], `.` for any character,
 * groups, `|`, and * + ? {m} {m,} {m,n} after each; # comments. The text begins with rule `root`.
 *
 * Literals and classes know \n \r \t \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH. As in llama.cpp a rule ends with its line,
 * except within parentheses, after `::=` and after `|`. A rule that is defined twice, one that is not defined, and one
 * that begins with itself are refused. */
#pragma once
#include "sample/grammar.h"

/* Errors: ERR_FORMAT with the rule or the line and column. */
int gbnf_compile(grammar **out, span text, const token_trie *t, err *e);
