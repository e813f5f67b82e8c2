/* load_hf_steps.h - the parts of a tokenizer.json around the model. Each reader appends steps to the tokenizer; JSON
 * null appends none; a type that is not implemented is an error that names it. */
#pragma once
#include "base/json.h"
#include "text/tokenizer_state.h"

struct hf_steps;
/* What is implemented; type NULL ends. */
typedef struct hf_step_row {
    const char *type;
    int (*read)(struct hf_steps *s, const json *j);
} hf_step_row;
extern const hf_step_row hf_normalizer_rows[], hf_pretokenizer_rows[], hf_postprocessor_rows[], hf_decoder_rows[];

int hf_read_normalizer(tokenizer *t, const json *j, const char *path, err *e);
int hf_read_pretokenizer(tokenizer *t, const json *j, const char *path, err *e);
int hf_read_postprocessor(tokenizer *t, const json *j, const char *path, err *e);
int hf_read_decoder(tokenizer *t, const json *j, const char *path, err *e);

/* An element of added_tokens. */
typedef struct hf_added {
    span text;
    bool special, normalized, single_word, lstrip, rstrip;
} hf_added;

/* Adds it with this id; the normalizer must be there already. The same text again replaces the earlier properties. */
int hf_add_token(tokenizer *t, const hf_added *a, int32_t id, err *e);
