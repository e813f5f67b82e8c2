/* param.h - options as rows: one table gives command-line flags, JSON fields, spec keys, help texts, defaults and
 * validation. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum {
    PARAM_INT,   /* int64_t, min … max */
    PARAM_FLOAT, /* double, min … max */
    PARAM_BYTES, /* int64_t, min … max; text: K, M, G after the number: KiB, MiB, GiB */
    PARAM_BOOL,  /* bool; text: true/false/on/off/1/0/yes/no; a flag without value is true */
    PARAM_TEXT,  /* const char * (the caller's memory; NULL = not given) */
    PARAM_WORD,  /* const char *, one of `words` separated by '|' */
    PARAM_CHOICE /* an enum without negative values: which of `words` it is, counted from 0 */
} param_type;

/* The `words` of a PARAM_CHOICE, from the list X(id, word, …) that makes its enum. */
#define CHOICE_WORD(id, word, ...) "|" word
#define CHOICE_WORDS(LIST)         (&LIST(CHOICE_WORD)[1])

/* What file a PARAM_TEXT names. Commands may not write over what they read (app/output_check.h). */
typedef enum {
    PATH_NONE,
    PATH_FILE,  /* read; "-" is standard input */
    PATH_IDS,   /* read where the text is "@FILE" */
    PATH_MODEL, /* read, with what belongs to it: a model or a tokenizer, as a file or a folder */
    PATH_SPEC,  /* read, with the files that it names */
    PATH_OUT,   /* written: a file, in a folder that is there */
    PATH_EXPORT /* written: a file whose name ends in .gguf, or a folder, made with those above it */
} param_path;

typedef struct param {
    const char *key; /* "top_p": on the command line also "--top-p" */
    param_type type;
    size_t offset;         /* of the field in the struct the table describes */
    const char *otherwise; /* default as text; NULL: NULL / 0 / false */
    double min, max;       /* PARAM_INT, PARAM_FLOAT, PARAM_BYTES: inclusive; both 0 = unbounded */
    const char *words;     /* PARAM_WORD, PARAM_CHOICE: "f32|f16|bf16"; others: what the help shows as value ("FILE",
                              "N"), NULL ok */
    const char *doc;
    const char *alias; /* another name for the same key, or NULL; one letter = a short flag */
    param_path path;
    bool keeps_bits;     /* whatever the value, the other options give the same tokens and logits, as far as these are
                        exact: no --exact off, lossy sums, or guesses that may change a text */
    bool rare;           /* few need it: in --help-all and the manual page, not in --help */
    const char *heading; /* the help shows it and the rows after it under this one; NULL: as the row before */
} param;

/* A row for a field of `struct_type` that is spelt like its key; other members of the row follow. */
#define PARAM_ROW(struct_type, field, kind, ...)                                                                       \
    {                                                                                                                  \
        .key = #field, .type = kind, .offset = offsetof(struct_type, field), __VA_ARGS__                               \
    }

void param_defaults(const param *rows, size_t n, void *into);
/* The row for a key ('-' and '_' are the same), or NULL. */
const param *param_find(const param *rows, size_t n, const char *key);
/* Sets one field from text. `where` names the place for messages ("--top-p", "mistral.ini:12: rope_theta"). */
int param_set(const param *row, void *into, const char *text, const char *where, err *e);
int param_set_number(const param *row, void *into, double value, const char *where, err *e);
/* "4096", "8K", "1G"; false: it is none, or beyond int64_t. */
bool param_bytes(span text, int64_t *out);
/* Whether "a|b|c" has the word; NULL has none. */
bool param_words_have(const char *words, span word);
/* Whether a value is one of the row's words: PARAM_WORD, PARAM_CHOICE. */
bool param_has_words(const param *row);
/* Of a row that has words: their number, and the i-th; empty: there are fewer. */
uint32_t param_word_count(const param *row);
span param_word(const param *row, uint32_t i);
/* The key as flags are written: with '-' for '_', cut to 79 bytes; returns `out`. */
const char *param_spell(const char *key, char out[80]);
/* The key or alias nearest to a misspelt one; NULL when none is near (edit distance: a third of its length, at least
 * 1). */
const char *param_nearest(const param *rows, size_t n, const char *key);
/* "  --top-p F        doc (default 0.9)": lines of at most `width` columns, as far as words allow; rare rows only with
 * `all`. Returns how many rows were left out. */
size_t param_help(const param *rows, size_t n, bool all, int width, buf *out);
/* Appends lines, broken at blanks where they are longer than `width`. What goes on is indented like the line, or like
 * its second column, where two blanks part it from the first. */
void param_wrap(const char *text, int width, buf *out);

/* Adds every row's key and value to a JSON object; texts that were not given are null. */
void param_json(const param *rows, size_t n, const void *from, json *object);

/* Edit distance (insert, delete, replace, swap of neighbours), capped at 99. */
int edit_distance(const char *a, const char *b);
