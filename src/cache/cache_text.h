/* cache_text.h - what a text has in the KV cache: pages, slots and rope tables, and how far it is computed.
 *
 * It holds its slots and rope tables, and takes pages as it goes on; those that fall out of a window it gives back. */
#pragma once
#include "cache/kv_cache.h"
#include "cache/text_state.h"

/* Memory for a text of at most `length` tokens, with an encoder input of n_enc. It holds nothing yet. False: memory is
 * short. */
bool text_open(cache_text *t, const program *p, int64_t length, int64_t n_enc);
void text_close(cache_text *t); /* pages, slots and rope tables were given back */

/* Takes pages for positions below `to`; returns the position up to which there are some, at least n_sent. */
int64_t text_take_pages(kv_cache *c, cache_text *t, int64_t to);
/* All pages of the encoder input. False: there are not as many, and none is taken. */
bool text_take_encoder(kv_cache *c, cache_text *t);
/* `to` reads the encoder pages of `from`. */
void text_hold_encoder(kv_cache *c, cache_text *to, const cache_text *from);
/* Gives the pages of the tokens (AXIS_TOK), or of the encoder input (AXIS_ENC), back. */
void text_give_pages(kv_cache *c, cache_text *t, int axis);
/* Gives pages back that fell out of a window. */
void text_leave_windows(kv_cache *c, cache_text *t);

/* Rope tables for `length` positions. Negative: there is none. */
int text_take_ropes(kv_cache *c, cache_text *t, int64_t length, err *e);
void text_give_ropes(kv_cache *c, cache_text *t);
