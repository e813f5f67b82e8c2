/* text_state.h - what a text has in the KV cache: see cache_text.h. */
#pragma once
#include "core/program.h"

enum { TEXT_SALT = 32 };

typedef struct cache_text {
    const int32_t *ids; /* whose states they are; the caller's, and as many as it sends */
    int64_t n_sent;     /* tokens that are in the cache, or will be by a step under way; n_past: by steps collected */
    int64_t n_past;
    int64_t n_done; /* positions that were in the cache at some time */

    bool shares; /* its full pages get nodes of the tree; false: it neither gives nor takes pages */
    uint8_t salt[TEXT_SALT];
    int32_t prefix;   /* the node of its last page that has one, or their root; -1: none */
    int64_t n_shared; /* pages up to there */
    int32_t reserved; /* the last node that its next steps will fill; -1: none */
    int32_t asked;    /* pages of its prompt; -1: it has not looked for its prefix yet */

    int64_t n_page[GROUP_MAX]; /* length of the page tables: of the tokens, or of the encoder input */
    int32_t *page[GROUP_MAX];  /* [n_page] physical page, -1 none */
    int64_t first[GROUP_MAX];  /* pages before this one fell out of the window and were given back */
    int32_t *variant;          /* [n_rope] */

    int32_t slot[2];  /* its own: text_slots.h */
    int32_t slot_now; /* where its state is when all that was sent is done: one of them, or another one that it holds */
    int32_t slot_was; /* where it was before the last step that was sent */
    int32_t taken;    /* rows that slot_now keeps apart and that count: they may be taken back */
    int32_t snapshot; /* the slot that its next step writes in place of its own; -1: none */
} cache_text;
