/* tk_vocab.c - see tk_vocab.h. */
#include "text/tk_vocab.h"

#include "base/mem.h"

#include <string.h>

static int grow_ids(vocab *v, size_t n, err *e)
{
    if (n <= v->cap) return OK;
    span *piece = mem_resize(v->piece, n, sizeof *piece);
    if (!piece) return err_memory(e, "the vocabulary");
    v->piece = piece;
    uint16_t *flag = mem_resize(v->flag, n, sizeof *flag);
    if (!flag) return err_memory(e, "the vocabulary");
    v->flag = flag;
    memset(v->piece + v->cap, 0, (n - v->cap) * sizeof *piece);
    memset(v->flag + v->cap, 0, (n - v->cap) * sizeof *flag);
    v->cap = (uint32_t)n;
    return OK;
}

int vocab_reserve(vocab *v, size_t n, err *e)
{
    if (n > VOCAB_IDS_MAX) return err_set(e, ERR_LIMIT, "vocabulary of %zu pieces: at most %d", n, VOCAB_IDS_MAX);
    return map_reserve(&v->ids, n) ? grow_ids(v, n, e) : err_memory(e, "the vocabulary");
}

int vocab_set(vocab *v, int64_t id, span piece, unsigned flags, err *e)
{
    if (id < 0 || id >= VOCAB_IDS_MAX)
        return err_set(e, ERR_FORMAT, "token id %lld of piece \"%.*s\" is outside 0..%d", (long long)id,
                       (int)(piece.n < 60 ? piece.n : 60), (const char *)piece.p, VOCAB_IDS_MAX - 1);
    if (id >= v->cap) {
        size_t n = v->cap ? v->cap : 256;
        while (n <= (size_t)id) n *= 2;
        int rc = grow_ids(v, n < VOCAB_IDS_MAX ? n : VOCAB_IDS_MAX, e);
        if (rc) return rc;
    }
    char *copy = arena_strn(&v->mem, (const char *)piece.p, piece.n);
    if (!copy) return err_memory(e, "the vocabulary");
    v->piece[id] = span_of(copy, piece.n);
    v->flag[id] = (uint16_t)flags;
    if (id >= v->size) v->size = (uint32_t)id + 1;
    if (!map_put(&v->ids, v->piece[id], (uint32_t)id)) return err_memory(e, "the vocabulary");
    return OK;
}

void vocab_free(vocab *v)
{
    mem_free(v->piece);
    mem_free(v->flag);
    map_free(&v->ids);
    arena_free(&v->mem);
    *v = (vocab){0};
}

int vocab_piece_byte(span s)
{
    if (s.n != 6 || memcmp(s.p, "<0x", 3) != 0 || s.p[5] != '>') return -1;
    int v = 0;
    for (int i = 3; i < 5; i++) {
        int c = s.p[i], d = c >= '0' && c <= '9'   ? c - '0'
                            : c >= 'A' && c <= 'F' ? c - 'A' + 10
                            : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                                   : -1;
        if (d < 0) return -1;
        v = v << 4 | d;
    }
    return v;
}
