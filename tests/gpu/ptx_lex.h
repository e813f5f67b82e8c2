/* ptx_lex.h - words and numbers of a PTX text. */
#pragma once
#include "tests/gpu/ptx.h"

typedef struct ptx_cursor {
    const char *p;
    int line;
} ptx_cursor;

/* Ends the process: the line, what is wrong, and the text that follows. */
_Noreturn void ptx_stop(const ptx_cursor *c, const char *what);

/* Skips blanks and comments, then tells the next character without taking it. */
char ptx_peek(ptx_cursor *c);
/* Takes ch where it is next. */
bool ptx_take(ptx_cursor *c, char ch);
void ptx_need(ptx_cursor *c, char ch);
/* The next word of letters, digits, $ and _, that may begin with % or a dot; dots inside where dotted. A copy in
 * rotation of 8: ptx_keep to hold it. */
const char *ptx_word(ptx_cursor *c, bool dotted);
char *ptx_keep(const char *word);
/* True and past it where the next word is this one. */
bool ptx_take_word(ptx_cursor *c, const char *word);
/* A number with its sign, as OPERAND_INTEGER or OPERAND_FLOAT. */
void ptx_number(ptx_cursor *c, ptx_operand *o);
/* Past a balanced { }. */
void ptx_skip_braces(ptx_cursor *c);
/* realloc that ends the process where memory runs out; list grows by one zeroed element of size, which is returned. */
void *ptx_grow(void *list, int *n, size_t size);
#define GROW(list, n) (__typeof__(list))ptx_grow(&(list), &(n), sizeof *(list))
