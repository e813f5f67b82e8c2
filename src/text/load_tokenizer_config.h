/* load_tokenizer_config.h - the files beside a vocabulary: tokenizer_config.json, special_tokens_map.json, added_tokens.json, config.json,
 * generation_config.json, chat_template.jinja. They name the roles, the chat template, and what text becomes special tokens. */
#ifndef TEXT_LOAD_TOKENIZER_CONFIG_H
#define TEXT_LOAD_TOKENIZER_CONFIG_H
#include "base/folder.h"
#include "base/json.h"
#include "text/tokenizer_state.h"

typedef struct side_files {
    json *config, *special, *added, *model, *generation; /* NULL: absent */
    char *chat;                                          /* chat_template.jinja */
} side_files;

/* Reads what is there; a malformed file is an error. side_free the result, on errors too. */
int side_read(side_files *s, const file_folder *in, err *e);
void side_free(side_files *s);

/* "LlamaTokenizer" for "LlamaTokenizerFast"; "" when the files do not say. Static buffer of `s`'s strings: valid while s is. */
span side_class(const side_files *s);

/* The special tokens of the side files, added to the vocabulary in order of their ids (vocab.json, vocab.txt, tokenizer.model). */
int side_add_tokens(tokenizer *t, const side_files *s, err *e);

/* After the vocabulary is complete: roles, ends of generation, chat template. */
int side_apply(tokenizer *t, const side_files *s, err *e);

/* The same without files, by the names that vocabularies use. Roles that are set stay. */
void side_guess_roles(tokenizer *t);

#endif
