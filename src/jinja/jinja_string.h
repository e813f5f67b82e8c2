/* jinja_string.h - what filters and methods do with strings, as Python's str does it: by code points. */
#pragma once
#include "jinja/jinja_value.h"

typedef enum {
    JSTRING_UPPER,
    JSTRING_LOWER,
    JSTRING_CAPITALIZE, /* the first character upper, the rest lower case */
    JSTRING_TITLE,      /* str.title: letters after a character that is none */
    JSTRING_WORDS,      /* jinja2's title: letters after blanks and - ( { [ < */
    JSTRING_SWAP
} jstring_case_kind;

jval jstring_case(jinja_run *r, jval v, jstring_case_kind kind);
/* chars: a set of characters; none: white space. */
jval jstring_strip(jinja_run *r, jval v, jval chars, bool left, bool right);
/* To `width` characters; align as in format: '<', '>', '^'. */
jval jstring_pad(jinja_run *r, jval v, int64_t width, uint32_t with, char align);
jval jstring_replace(jinja_run *r, jval v, jstr from, jstr to, int64_t count); /* count -1: all */
jlist *jstring_lines(jinja_run *r, jstr s, bool keep_ends);                    /* str.splitlines */
/* At a separator, or at white space (none); at most `count` times, -1: any; from the right. */
jlist *jstring_split(jinja_run *r, jval v, jval separator, int64_t count, bool right);
/* The byte where `what` lies in s first (or last), or s.n + 1. */
size_t jstring_find(jstr s, jstr what, size_t from, bool last);
