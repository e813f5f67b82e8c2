/* call_parser.h - tool calls and reasoning out of a text as it comes, by the rows of call_format.h.
 *
 * The parser appends to a message: reasoning, content, calls. It holds back what may be the beginning of a mark and
 * blanks that may stand before one, so that what it has appended never has to be taken back: a stream adds up to the
 * whole reply. A call that does not follow its format is content.
 *
 * Of calls that are bound to be right (`bound`, and those of harmony) the arguments are appended as they come; a text
 * that is cut within them ends with a part of them. Of arguments in tags, text comes in pieces too, other values when
 * they are complete; of a name that comes twice the first value counts. Calls that are not bound come when they are
 * complete. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "chat/call_format.h"

typedef struct tool_call {
    char id[40];
    buf name, arguments; /* arguments: JSON text */
    bool whole;          /* they are complete */
} tool_call;

typedef struct chat_message {
    buf reasoning, content;
    tool_call *calls;
    size_t n_calls, cap_calls;
} chat_message;
void chat_message_free(chat_message *m);

typedef struct call_parser call_parser;
typedef struct call_parser_options {
    const call_format *format;        /* NULL: calls are not looked for */
    const reasoning_marks *reasoning; /* NULL: neither is reasoning */
    bool thinking;                    /* the prompt has opened the reasoning */
    bool one_call;                    /* later calls are left out */
    bool bound;                       /* calls are written as format->writing says; nothing follows them */
    bool required;                    /* if bound: nothing stands before them either, but reasoning */
    const json *tools;                /* declared, as in a request: types of arguments that are written as text */
} call_parser_options;
/* `tools` must outlive the parser. */
int call_parser_open(call_parser **out, const call_parser_options *o, err *e);
void call_parser_close(call_parser *p); /* NULL ok */
/* Takes more of the text; `last`: it ends here. */
int call_parser_feed(call_parser *p, span text, bool last, chat_message *to, err *e);
/* Whether the text of a special token belongs into what is fed. */
bool call_parser_wants(const call_parser_options *o, span special);
