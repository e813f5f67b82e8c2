/* tk_added.h - added tokens: texts that become one token before (or right after) normalization, whatever the model
 * would make of them. Leftmost-longest; semantics of the Hugging Face library. */
#pragma once
#include "base/err.h"
#include "base/span.h"
#include "text/tk_trie.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct added_token {
    span text; /* the text looked for; owned by the tokenizer's arena */
    int32_t id;
    bool special;        /* found only where special tokens are parsed */
    bool single_word;    /* not inside a word */
    bool lstrip, rstrip; /* also takes the white space on that side */
} added_token;

typedef struct added_set {
    added_token *v; /* {0} is a valid empty set */
    size_t n, cap;
    trie texts;       /* -> index */
    bool has_special; /* some are */
} added_set;

int added_put(added_set *s, added_token t, err *e);
void added_free(added_set *s);

typedef struct added_walk {
    const added_set *set;
    span text;
    bool parse;          /* special tokens count; else they are skipped whole, with whatever lies inside them */
    size_t at;           /* where to look next */
    size_t done;         /* end of the last token */
    const uint8_t *user; /* [text.n]: special tokens with a byte that is marked here do not count; NULL: none is */
} added_walk;

/* The next token: text [w->done, *start) lies before it, the token ends at *stop; the caller then sets w->done = *stop.
 * A token whose text went to the white space of the one before (stop <= start) does not count. NULL: no more. */
const added_token *added_next(added_walk *w, size_t *start, size_t *stop);
