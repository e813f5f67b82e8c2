/* tk_wordpiece.h - WordPiece (Schuster & Nakajima 2012; BERT): a word is cut greedily into the longest pieces, those
 * after the first spelled with a prefix ("##"); a word that cannot be cut, or is too long, is unknown as a whole. */
#pragma once
#include "base/err.h"
#include "base/span.h"
#include "text/tk_trie.h"
#include "text/tk_vocab.h"
#include "text/token_list.h"

typedef struct wordpiece {
    trie first, rest; /* -> id; pieces that start a word, and (without their prefix) those that go on */
    int32_t unk;
    uint64_t longest_word; /* characters */
} wordpiece;

int wordpiece_encode(const wordpiece *m, span word, token_list *out, err *e);
/* Fills the tries from the vocabulary; special tokens are left out, since text never makes them. */
int wordpiece_build(wordpiece *m, const vocab *voc, span prefix, err *e);
void wordpiece_free(wordpiece *m);
