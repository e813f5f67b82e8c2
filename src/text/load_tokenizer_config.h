/* load_tokenizer_config.h - the files beside a vocabulary that name roles, special tokens and the chat template:
 * tokenizer_config.json, config.json, special_tokens_map.json, added_tokens.json, chat_template.jinja, or that of a
 * processor of pictures, chat_template.json. */
#pragma once
#include "base/folder.h"
#include "base/json.h"
#include "text/tokenizer_state.h"

typedef struct tokenizer_config {
    json *config, *special, *added, *model, *processor; /* NULL: absent */
    char *chat;                                         /* chat_template.jinja */
} tokenizer_config;

/* Reads the files that exist; a malformed file is an error. tokenizer_config_free the result, on errors too. */
int tokenizer_config_read(tokenizer_config *s, const file_folder *in, err *e);
void tokenizer_config_free(tokenizer_config *s);

/* "LlamaTokenizer" for "LlamaTokenizerFast"; "" when the files do not say. Valid while s is. */
span tokenizer_config_class(const tokenizer_config *s);

/* Adds the special tokens that the files name to the vocabulary, in order of their ids. */
int tokenizer_config_add_tokens(tokenizer *t, const tokenizer_config *s, err *e);

/* Sets roles and the chat template; the vocabulary must be complete. */
int tokenizer_config_apply(tokenizer *t, const tokenizer_config *s, err *e);

/* Sets roles that are still unknown by the usual names of their tokens. */
void tokenizer_config_guess_roles(tokenizer *t);
