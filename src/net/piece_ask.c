/* piece_ask.c - see piece_ask.h: the number of runs, then tensor (4 bytes), offset (8) and bytes (4) of each,
 * little-endian. */
#include "net/piece_ask.h"

bool piece_ask_write(buf *out, const piece_ask *a)
{
    buf_uint(out, a->n, 4);
    for (uint32_t i = 0; i < a->n; i++) {
        buf_uint(out, a->run[i].entry, 4);
        buf_uint(out, a->run[i].at, 8);
        buf_uint(out, a->run[i].n, 4);
    }
    return !out->bad;
}

int piece_ask_read(piece_ask *a, cursor *c, uint32_t n_tensor, uint64_t (*bytes_of)(const void *ctx, uint32_t i),
                   const void *ctx, err *e)
{
    a->n = cursor_u32(c);
    a->bytes = 0;
    bool ok = a->n >= 1 && a->n <= PIECE_RUNS;
    for (uint32_t i = 0; i < a->n && ok; i++) {
        byte_run *r = &a->run[i];
        r->entry = cursor_u32(c);
        r->at = cursor_u64(c);
        r->n = cursor_u32(c);
        ok = !c->bad && r->entry < n_tensor && r->n >= 1 && r->n <= PIECE_BYTES - a->bytes;
        const uint64_t all = ok ? bytes_of(ctx, r->entry) : 0;
        ok = ok && r->at <= all && r->n <= all - r->at;
        a->bytes += ok ? (uint32_t)r->n : 0;
    }
    return ok ? OK : err_set(e, ERR_FORMAT, "it asks for bytes that no tensor has");
}
