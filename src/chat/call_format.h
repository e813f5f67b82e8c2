/* call_format.h - how models write tool calls and reasoning into their text: formats as rows. */
#pragma once
#include "base/span.h"

typedef enum {
    CALL_OBJECT,  /* {"name": …, "arguments": {…}} */
    CALL_LIST,    /* [{…}, …] */
    CALL_NAMED,   /* name, separator, {…} */
    CALL_TAGS,    /* <function=name><parameter=key>value</parameter>…</function> */
    CALL_PAIRS,   /* name<arg_key>key</arg_key><arg_value>value</arg_value>… */
    CALL_CHANNELS /* messages with channels and recipients: harmony */
} call_body;

/* How calls are written where they are bound to be right, as their templates write them; @ stands for the tool's name,
 * which `before` has. Arguments between `before` and `after` are JSON, or tags. */
typedef struct call_writing {
    const char *open, *before, *after, *between, *close; /* NULL: nothing */
    const char *trigger;                                 /* what only calls begin with */
    /* Of tags (CALL_TAGS, CALL_PAIRS): before and behind the name of an argument, behind its value. Strings stand as
     * they are, by base/schema_text.h, and do not hold `end` less its blanks; other values are JSON, or else strings
     * that are none. */
    const char *key, *value, *end;
} call_writing;

typedef struct call_format {
    const char *name;
    const char *in_template[2]; /* texts by which a template shows that its model writes this; NULL: none */
    call_body body;
    const char *open, *close; /* around a call; close NULL: it ends where its JSON does */
    const char *separator;    /* CALL_NAMED */
    const char *drop[4];      /* markers around all calls, or around content: no part of any text; NULL: none */
    bool bare;                /* a text that begins with an object is a call, too */
    const char *special;      /* special tokens that the parser has to see, separated by blanks; NULL: none */
    call_writing writing;
} call_format;

extern const call_format call_formats[];                   /* closed by a row without a name */
const call_format *call_format_of_template(span template); /* NULL: it shows none */
const call_format *call_format_find(const char *name);     /* NULL: there is none */

/* Marks around reasoning. */
typedef struct reasoning_marks {
    const char *open, *close;
} reasoning_marks;
const reasoning_marks *reasoning_of_template(span template); /* NULL: none */
