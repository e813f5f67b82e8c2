/* tk_unigram.h - Unigram language model (Kudo 2018): of all spellings with pieces the one with the highest sum of
 * scores.
 *
 * One pass over the bytes (Viterbi); time is the length of the text times the longest piece. Hugging Face adds in
 * double and sentencepiece in float, which decides ties: both are here.
 *
 * Trick: where no piece reaches across a place, every spelling goes through it: the pieces before it are settled and
 * the nodes reused (mostly after a word). The score goes on, so rounding is that of one pass. */
#pragma once
#include "base/err.h"
#include "base/span.h"
#include "text/tk_trie.h"
#include "text/tk_vocab.h"
#include "text/token_list.h"

typedef struct unigram {
    trie pieces;    /* -> id */
    double *score;  /* [count] */
    uint32_t count; /* ids the model knows; added tokens follow them */
    double unk_score;
    int32_t unk;    /* -1: an unknown character is an error */
    bool single;    /* sentencepiece's float arithmetic */
    bool fall_back; /* unknown characters become their bytes <0xXX> */
    int32_t byte_piece[256];
    const vocab *voc;
    const int32_t *number; /* Marian: what each id is called in the vocabulary; NULL: the ids are the vocabulary's */
    int32_t number_unk;
} unigram;

typedef struct unigram_node {
    double score;   /* of the best spelling that ends here */
    uint32_t start; /* of its last piece; UINT32_MAX: no spelling ends here */
    int32_t id;
} unigram_node;

typedef struct unigram_work {
    unigram_node *node;
    size_t cap;
} unigram_work;

int unigram_encode(const unigram *u, unigram_work *w, span text, token_list *out, err *e);
void unigram_free(unigram *u);
void unigram_work_free(unigram_work *w);
