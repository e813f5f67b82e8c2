/* tk_pretokenize.h - pre-tokenizers: a normalized text becomes the words that the model sees one by one.
 *
 * A tokenizer has a list of steps; each cuts the pieces of the previous one, some change the text. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "text/tk_pieces.h"
#include "text/tk_regex.h"

typedef enum {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS
} split_behaviour;

typedef enum {
    PRETOK_REGEX,     /* cuts at the matches of a pattern (Split, Whitespace, ByteLevel's own pattern) */
    PRETOK_CHARS,     /* cuts at characters of a class (WhitespaceSplit, Punctuation, Digits, CharDelimiterSplit) */
    PRETOK_PREFIX,    /* puts a space in front of every piece that has none (ByteLevel) */
    PRETOK_BYTES,     /* spells every byte as a printable character (ByteLevel, where another step follows it) */
    PRETOK_METASPACE, /* spaces become a sign that also starts words */
    PRETOK_LENGTH,    /* every `count` characters (FixedLength) */
    PRETOK_SCRIPTS    /* where the script changes (UnicodeScripts) */
} pretok_kind;

typedef enum { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS } prepend_scheme;

typedef struct pretok_step {
    pretok_kind kind;
    split_behaviour behaviour;
    bool invert;            /* the pattern describes what is kept */
    regex *pattern;         /* PRETOK_REGEX, owned */
    bool (*is)(uint32_t c); /* PRETOK_CHARS: NULL: the character `sign` */
    uint32_t sign;          /* PRETOK_CHARS, PRETOK_METASPACE: a code point */
    prepend_scheme prepend; /* PRETOK_METASPACE */
    bool split;             /* PRETOK_METASPACE: cut before each sign */
    size_t count;           /* PRETOK_LENGTH */
} pretok_step;

enum { PRETOK_STEPS_MAX = 32 };

typedef struct pretok {
    pretok_step step[PRETOK_STEPS_MAX];
    int n;
} pretok;

void pretok_free(pretok *p);

/* Working memory of one thread; {0} is valid. */
typedef struct pretok_work {
    buf text[2];
    piece_list list[2];
} pretok_work;
void pretok_work_free(pretok_work *w);

/* Cuts `in`; *text is the text that the pieces *out lie in: `in` or a buffer of `w`, valid until the next call. */
int pretok_run(const pretok *p, pretok_work *w, regex_work *rx, span in, bool first, span *text, const piece_list **out,
               err *e);

/* GPT-2's spelling of a byte as a printable character. */
uint32_t byte_char(uint8_t byte);
/* Appends the bytes that a piece in that spelling stands for; false and nothing if a character is no byte. */
bool byte_unspell(span piece, buf *out);
