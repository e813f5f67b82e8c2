/* conversation.h - `run` on a terminal: a conversation through the model's chat template. */
#pragma once
#include "app/sampling_table.h"
#include "engine/engine.h"
#include "chat/chat_template.h"

typedef struct conversation_options {
    const char *system;    /* NULL: none */
    sampling_table sample; /* changed by /set */
    int64_t min_tokens;    /* of an answer, before it may end */
    bool ignore_eos;       /* it goes on after the model's end token */
    bool parse_special;    /* special-token text of the user counts */
    struct grammar *form;  /* of answers; NULL: any */
} conversation_options;

/* What a line from the terminal is, where there is no template too: a text, blanks alone, /help, or /bye and its other
 * names. Other commands are texts here. */
typedef enum { LINE_TEXT, LINE_BLANK, LINE_HELP, LINE_BYE } line_kind;
line_kind conversation_line(const char *line);
/* Reads lines and answers them until the end of input or /bye. */
int conversation_run(engine *eng, const chat_template *chat, const conversation_options *o, err *e);
/* The ids of a prompt with one message of the user. */
int conversation_prompt(const engine *eng, const chat_template *chat, const conversation_options *o, const char *text,
                        token_list *out, err *e);
