/* tk_vocab.h - the vocabulary: pieces by id, ids by piece, and what kind of piece each is. */
#pragma once
#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PIECE_SPECIAL = 1, /* never made from plain text; left out by DETOKENIZE_SKIP_SPECIAL */
    PIECE_ADDED = 2,   /* matched before the model sees the text */
    PIECE_UNKNOWN = 4,
    PIECE_BYTE = 8,     /* <0xXX>: one raw byte */
    PIECE_CONTROL = 16, /* SentencePiece: prints as nothing */
    PIECE_USER = 32,    /* SentencePiece: always one token where its text occurs */
    PIECE_UNUSED = 64,  /* SentencePiece: known, but split again into what it was merged from */
    PIECE_EXTRA = 128   /* added beside the model: only matching it as an added token makes it */
};

enum { VOCAB_IDS_MAX = 1 << 22 }; /* a file cannot ask for more ids than this */

typedef struct vocab {
    arena mem;      /* bytes of the pieces */
    span *piece;    /* [size]; p == NULL: no such id */
    uint16_t *flag; /* [size], PIECE_* */
    uint32_t size;  /* highest id + 1 */
    uint32_t cap;
    map ids; /* piece -> id; the last id of a spelling has it */
} vocab;

/* Room for `n` pieces without growing. */
int vocab_reserve(vocab *v, size_t n, err *e);
/* Sets the piece of an id (bytes are copied) and its flags. Look-ups by piece find the last id that was set. */
int vocab_set(vocab *v, int64_t id, span piece, unsigned flags, err *e);
void vocab_free(vocab *v);

static inline bool vocab_has(const vocab *v, int64_t id) { return id >= 0 && id < v->size && v->piece[id].p; }
static inline int32_t vocab_find(const vocab *v, span piece)
{
    uint32_t id = map_get(&v->ids, piece);
    return id == MAP_NONE ? -1 : (int32_t)id;
}
/* The same, among the pieces that the model knows. */
static inline int32_t vocab_find_known(const vocab *v, span piece)
{
    int32_t id = vocab_find(v, piece);
    return id >= 0 && (v->flag[id] & PIECE_EXTRA) ? -1 : id;
}
/* The byte that a piece spelled <0xXX> stands for, -1 for any other piece. */
int vocab_piece_byte(span piece);
