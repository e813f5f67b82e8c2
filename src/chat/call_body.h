/* call_body.h - the inside of a tool call, in the ways of call_format.h: names, and arguments as JSON text. */
#pragma once
#include "base/buf.h"
#include "base/json.h"
#include "chat/call_format.h"

typedef struct call_body_walk {
    const call_format *format;
    const json *tools;
    span body;
    size_t at; /* of a list: where the next element begins */
    bool done;
    buf text; /* holds a name or arguments that are not written as such; free it at the end */
} call_body_walk;

/* The next call. False: the body does not follow its format; a name of no bytes: there are no more. The spans hold
 * until the next call. */
bool call_body_next(call_body_walk *w, span *name, span *arguments);

/* Whether an argument is text, whatever it looks like: its declared type says so. */
bool call_argument_is_text(const json *tools, span function, const char *key);
bool call_value_is_json(span s);
/* Bytes of the JSON value at the beginning of s; 0: it is none, or not complete. */
size_t call_json_length(span s);
