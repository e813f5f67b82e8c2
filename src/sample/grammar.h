/* grammar.h - texts that a grammar allows, token by token: which tokens may come next after the ids so far.
 *
 * A grammar is compiled once, on any thread, and shared by reference; its automaton (grammar_nodes.h) is run over a
 * vocabulary's bytes (token_trie.h). Where a text is in it is a grammar_place: a small value that follows from the ids
 * alone, so that an engine may go back, drop it, or make it again. Masks allow only tokens after which the text can
 * still be completed; those that end the text, only where it is complete. All functions may be called from any thread.
 */
#pragma once
#include "sample/grammar_phrase.h"
#include "sample/token_trie.h"

typedef struct grammar grammar;

/* The automaton of a builder's rule, for a vocabulary that outlives it; errors are the builder's. The builder is
 * closed, also on failure. */
int grammar_open(grammar **out, grammar_builder *b, uint32_t root, const token_trie *t);
grammar *grammar_keep(grammar *g); /* another reference; NULL gives NULL */
void grammar_drop(grammar *g);     /* NULL ok */
size_t grammar_mask_words(const grammar *g);

/* What it was made from (form_source.h), copied; before it is shared. kind 0: it has no source. */
int grammar_set_source(grammar *g, int kind, span source, err *e);
int grammar_source(const grammar *g, span *source); /* the kind */

typedef struct grammar_place {
    uint32_t epoch, state; /* {0}: the beginning */
    int64_t n;             /* ids that it has read */
} grammar_place;

typedef struct grammar_next {
    bool complete; /* the text may end here */
    bool over;     /* … and nothing may follow, or no token of the vocabulary does */
} grammar_next;

/* Moves the place to the end of ids[0 … n): on from where it is, or from the beginning where it cannot be used. Unless
 * the text is over there, or `allowed` is NULL, sets allowed[grammar_mask_words] to the tokens that may follow, a bit
 * each; those that end a text too, if it is complete and may_end. ERR_FORMAT: the grammar does not allow the ids, or no
 * token goes on; ERR_LIMIT: it is too ambiguous. */
int grammar_follow(grammar *g, grammar_place *at, const int32_t *ids, int64_t n, bool may_end, uint64_t *allowed,
                   grammar_next *next, err *e);
