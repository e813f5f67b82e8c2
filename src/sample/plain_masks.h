/* plain_masks.h - masks of the tokens that consist of given characters alone, and of few enough.
 *
 * Within a counted string every position is another state of a grammar (grammar_run.h), yet nearly all tokens are
 * allowed or not by two things: which characters they have and how many. So a mask begins as a copy of one of these,
 * and a walk over the vocabulary looks at the other tokens only. */
#pragma once
#include "sample/token_trie.h"

enum { PLAIN_MASKS = 24, PLAIN_EXACT = 16 };

typedef struct plain_masks {
    const token_trie *t;
    uint64_t *mask; /* [PLAIN_MASKS * n_word] */
    struct {
        uint64_t buckets;
        int chars; /* 0: none yet */
    } of[PLAIN_MASKS];
    int next;
} plain_masks;

int plain_masks_open(plain_masks *m, const token_trie *t, err *e);
void plain_masks_close(plain_masks *m);

/* The number of characters up to `chars` for which there is a mask: exact up to PLAIN_EXACT, then a power of two, or
 * that of the longest token. */
int plain_level(const plain_masks *m, int chars);
/* The tokens of at most so many characters, a level, whose buckets (token_trie.h) are among these; [n_word], until the
 * next call. */
const uint64_t *plain_mask(plain_masks *m, uint64_t buckets, int chars);
