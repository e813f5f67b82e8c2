/* load_llama2c.c - tokenizer.bin of llama2.c: u32 longest piece, then f32 score, i32 length and bytes of each piece, to
 * the end of the file. Source: github.com/karpathy/llama2.c (the export in tokenizer.py, the algorithm in run.c).
 *
 * Pieces hold plain spaces; ids 0, 1, 2 are <unk>, BOS, EOS, ids 3..258 the bytes <0x00>..<0xFF>. A text gets BOS and
 * one space in front; neighbours whose concatenation is a piece are merged, the best score first. */
#include "text/load_llama2c.h"

#include "base/mem.h"
#include "text/tokenizer_build.h"

#include <math.h>

enum { PIECE_BYTES_MAX = 4096, BOS = 1, EOS = 2, BYTES_FROM = 3 };

bool llama2c_probe(span file)
{
    cursor c = cursor_of(file);
    uint32_t longest = cursor_u32(&c);
    if (longest == 0 || longest > PIECE_BYTES_MAX) return false;
    for (int i = 0; i < BYTES_FROM + 256; i++) {
        cursor_u32(&c);
        span piece = cursor_take(&c, cursor_u32(&c));
        if (c.bad || piece.n > PIECE_BYTES_MAX || (i >= BYTES_FROM && vocab_piece_byte(piece) != i - BYTES_FROM))
            return false;
    }
    return true;
}

static int read_pieces(tokenizer *t, cursor *c, float **score, const char *path, err *e)
{
    size_t cap = 0;
    void *grown = NULL;
    int rc = OK;
    for (uint32_t id = 0; cursor_left(c) && !rc; id++) {
        float f = cursor_f32(c);
        span piece = cursor_take(c, cursor_u32(c));
        if (c->bad) return err_set(e, ERR_FORMAT, "%s: ends inside piece %u", path, id);
        if (piece.n > PIECE_BYTES_MAX || !isfinite(f))
            return err_set(e, ERR_FORMAT, "%s: piece %u is malformed", path, id);
        if (!mem_grow(&grown, &cap, (size_t)id + 1, sizeof **score)) return err_memory(e, path);
        *score = grown;
        (*score)[id] = f;
        unsigned flags = id == 0 ? PIECE_UNKNOWN : 0;
        if (id >= BYTES_FROM && id < BYTES_FROM + 256) flags = PIECE_BYTE;
        if (id == BOS || id == EOS) flags = PIECE_SPECIAL;
        rc = vocab_set(&t->voc, id, piece, flags, e);
    }
    return rc;
}

int load_llama2c(tokenizer *t, span file, const char *path, err *e)
{
    cursor c = cursor_of(file);
    cursor_u32(&c);
    float *score = NULL;
    int rc = read_pieces(t, &c, &score, path, e);
    if (!rc && t->voc.size < BYTES_FROM + 256) rc = err_set(e, ERR_FORMAT, "%s: lacks the byte pieces", path);
    bpe *b = &t->bp;
    if (!rc) rc = bpe_rank_by_score(b, score, e);
    mem_free(score);
    if (rc) return rc;
    t->kind = "spm-bpe";
    t->model = MODEL_BPE;
    b->fall_back = true;
    b->space = span_str(" ");
    for (int i = 0; i < 256; i++) b->byte_piece[i] = BYTES_FROM + i;
    bpe_finish(b);
    norm_step *n = tokenizer_add_normalizer(t, NORM_PREPEND, e);
    if (!n || !tokenizer_add_decoder(t, DECODE_LLAMA2C, e)) return ERR_LIMIT;
    n->to = span_str(" ");
    t->single = (post_template){{{BOS, 0}, {POST_A, 0}}, 2};
    t->pair = (post_template){{{BOS, 0}, {POST_A, 0}, {BOS, 1}, {POST_B, 1}}, 4};
    t->role[TOKEN_BOS] = BOS;
    t->role[TOKEN_EOS] = EOS;
    t->role[TOKEN_UNK] = 0;
    if (!(rc = tokenizer_add_special(t, BOS, e))) rc = tokenizer_add_special(t, EOS, e);
    return rc;
}
