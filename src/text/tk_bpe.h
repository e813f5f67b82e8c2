/* tk_bpe.h - byte-pair encoding (Sennrich 2016): of all neighbours that may be joined the best pair is joined, the
 * leftmost one among equals, until none is left.
 *
 * Every dialect is the same loop with other answers to three questions:
 *  - What is a symbol at the start? A byte (GPT-2, tiktoken) or a character (SentencePiece, llama2.c, old HF files).
 *  - Which pairs may be joined? Those listed as merges, or any two that spell a piece (SentencePiece, tiktoken).
 *  - What becomes of a character that is no piece? Its bytes <0xXX>, the unknown token, or nothing.
 * Time is n log n in the length of the text (a heap of pairs), with a scan instead of the heap for short words, and a
 * cache of words per thread: most text is words seen before. */
#pragma once
#include "base/err.h"
#include "base/span.h"
#include "text/tk_trie.h"
#include "text/tk_vocab.h"
#include "text/tk_word_cache.h"
#include "text/token_list.h"

typedef struct bpe_pair {
    uint32_t left, right, rank, id; /* left + right -> id; the lowest rank first */
} bpe_pair;

typedef struct bpe {
    bool bytes;              /* symbols are bytes, else characters */
    bool listed;             /* pairs come from the table, else any two whose concatenation has a rank */
    bool whole_first;        /* a word that is a piece needs no merging (ignore_merges, tiktoken) */
    bool fuse_unk;           /* neighbouring unknown characters become one unknown token */
    bool fall_back;          /* unknown characters become their bytes */
    bool cut;                /* no merge crosses the place before `space`: the text can be cut there */
    bool resplit;            /* some pieces are PIECE_UNUSED */
    int32_t unk;             /* -1: unknown characters vanish */
    int32_t unit[256];       /* bytes: id of each byte; characters: id of each ASCII character; -1 none */
    int32_t byte_piece[256]; /* id of <0xXX>, -1 none */
    span space;              /* "▁" or " " */
    span prefix, suffix;     /* continuing_subword_prefix, end_of_word_suffix; empty mostly */
    bpe_pair *pair;          /* listed: hash table, id = UINT32_MAX is empty */
    size_t pair_cap, pair_n;
    map word;       /* spelling as it occurs in text -> id: whole_first, and !listed */
    uint32_t *rank; /* !listed: [ids]; UINT32_MAX: no merge makes this piece */
    trie frozen;    /* user-defined symbols: never merged */
    const vocab *voc;
} bpe;

typedef struct bpe_symbol {
    uint32_t at, n; /* bytes of the text; n = 0: merged into its left neighbour */
    int32_t id;     /* -1: no piece */
    int32_t prev, next;
    bool frozen;
} bpe_symbol;

typedef struct bpe_candidate {
    uint64_t order; /* rank << 32 | symbol: the smallest is merged first */
    uint32_t n;     /* bytes of both: tells a candidate that is out of date */
    uint32_t id;
} bpe_candidate;

/* Working memory of one thread; {0} is valid. */
typedef struct bpe_work {
    bpe_symbol *sym;
    size_t sym_cap, n;
    bpe_candidate *heap;
    size_t heap_cap, heap_n;
    uint32_t *split; /* resplit: bytes of the left part of each unused piece, as last merged */
    word_cache cache;
} bpe_work;

/* Room for n merges; then bpe_merge for each in order of rank. A pair that is there already keeps its first rank. */
int bpe_reserve(bpe *b, size_t n, err *e);
int bpe_merge(bpe *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t id, err *e);
/* Merging by score: ranks all pieces, the highest score first, equal scores equal, and indexes them by spelling.
 * Special, unknown and byte pieces are never the result of a merge. score[id] for every id. */
int bpe_rank_by_score(bpe *b, const float *score, err *e);
/* Decides whether text can be cut at spaces; everything else must be set. */
void bpe_finish(bpe *b);
/* The rank of the merge that makes each id, UINT32_MAX where none does. mem_free it; NULL: out of memory. */
uint32_t *bpe_ranks(const bpe *b);
void bpe_free(bpe *b);

/* Appends the ids of a word (or of a whole text where the vocabulary knows no words). ERR_MEMORY only. */
int bpe_encode(const bpe *b, bpe_work *w, span text, token_list *out, err *e);
void bpe_work_free(bpe_work *w);
