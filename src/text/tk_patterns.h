/* tk_patterns.h - byte-level pre-tokenizers by the names of GGUF files and `--pre`: one row, one vocabulary family.
 *
 * A row is a list of patterns; each cuts the pieces of the previous one (matches and gaps stay). Patterns are facts
 * published with the models (their tokenizer.json, the tables of tiktoken and llama.cpp). */
#pragma once
#include <stdbool.h>

enum { PATTERN_STEPS_MAX = 6 };

typedef struct pattern_row {
    const char *name;
    const char *step[PATTERN_STEPS_MAX]; /* NULL ends the list; none: the whole text is one word */
    bool whole_first;                    /* a word that is a piece is not merged (ignore_merges) */
    bool nfc;                            /* text is composed first */
    bool adds_bos, adds_sep;             /* GGUF files that do not say: BOS before a text, separator after it */
} pattern_row;

extern const pattern_row pattern_rows[]; /* name NULL ends */
/* NULL when there is no such name. */
const pattern_row *pattern_find(const char *name);

/* One name for each different pattern, the usual ones first; NULL ends. */
extern const char *const pattern_names[];

extern const char *const pattern_gpt2; /* ByteLevel's own */
