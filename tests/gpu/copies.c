/* copies.c - cp.async: copies from global to shared memory that are carried out when they are waited for, and not
 * before. Whoever reads without waiting finds what was there. */
#include "tests/gpu/access.h"
#include "tests/gpu/copies.h"
#include "tests/gpu/decode.h"

#include <stdlib.h>
#include <string.h>

#include "tests/gpu/ptx_lex.h"

typedef struct lane_copy {
    int lane;
    uint32_t group; /* of the lane's: how many it had closed before */
    uint64_t to, from;
    uint8_t bytes, filled; /* bytes that are copied; the rest of bytes is zero */
} lane_copy;

typedef struct lane_copies {
    int n;
    lane_copy *list;
    uint32_t closed[LANES];
} lane_copies;

static lane_copies *copies_of(warp *w)
{
    if (!w->copies) w->copies = calloc(1, sizeof *w->copies);
    if (!w->copies) abort();
    return w->copies;
}

void copies_forget(warp *w)
{
    if (!w->copies) return;
    free(w->copies->list);
    free(w->copies);
    w->copies = NULL;
}

static uint64_t address(const warp *w, int32_t r, bool wide, int l)
{
    return wide ? ((const uint64_t *)row(w, r))[l] : row(w, r)[l];
}

/* From o[1] + imm to o[0] + x[0], n bytes; o[2]: how many of them are read, o[3]: whether none is; mode: which
 * addresses are wide. */
static void begin_copy(warp *w, const inst *in, uint32_t mask)
{
    lane_copies *c = copies_of(w);
    for (uint32_t m = mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        const uint64_t to = address(w, in->o[0], in->mode & 1, l) + (uint64_t)in->x[0];
        const uint64_t from = address(w, in->o[1], in->mode & 2, l) + (uint64_t)in->imm;
        uint32_t filled = in->o[2] == NO_ROW ? in->n : row(w, in->o[2])[l];
        if (in->o[3] != NO_ROW && *row(w, in->o[3]) >> l & 1) filled = 0;
        if (filled > in->n) machine_fault(w, l, FAULT_LAUNCH, "copies %u bytes of %u", filled, in->n);
        if (!access_at(w, l, SPACE_SHARED, to, in->n, in->n, TOUCH_WRITE)) return;
        if (filled && !access_at(w, l, SPACE_GLOBAL, from, filled, in->n, TOUCH_READ)) return;
        *GROW(c->list, c->n) = (lane_copy){l, c->closed[l], to, from, in->n, (uint8_t)filled};
    }
}

static void close_group(warp *w, const inst *in, uint32_t mask)
{
    (void)in;
    lane_copies *c = copies_of(w);
    for (uint32_t m = mask; m; m &= m - 1) c->closed[__builtin_ctz(m)]++;
}

static void carry_out(warp *w, const lane_copy *c)
{
    uint8_t *to = access_at(w, c->lane, SPACE_SHARED, c->to, c->bytes, c->bytes, TOUCH_WRITE);
    const uint8_t *from = c->filled ? access_at(w, c->lane, SPACE_GLOBAL, c->from, c->filled, c->bytes, TOUCH_READ)
                                    : to;
    if (!to || !from) return;
    if (c->filled) memcpy(to, from, c->filled);
    memset(to + c->filled, 0, (size_t)(c->bytes - c->filled));
}

/* All but the imm last groups; imm -1: also what is in no group. */
static void wait_for(warp *w, const inst *in, uint32_t mask)
{
    lane_copies *c = copies_of(w);
    int kept = 0;
    for (int i = 0; i < c->n; i++) {
        const lane_copy one = c->list[i];
        const bool mine = mask >> one.lane & 1;
        if (mine && (in->imm < 0 || (int64_t)one.group + in->imm < (int64_t)c->closed[one.lane])) carry_out(w, &one);
        else c->list[kept++] = one;
    }
    if (!kept) {
        free(c->list);
        c->list = NULL;
    }
    c->n = kept;
}

/* ---- decoding ---- */

static bool decode_group(decoder *d)
{
    if (decode_word(d, "commit_group")) {
        decode_end(d, 0, 0);
        decode_emit(d, close_group);
        return true;
    }
    const bool all = decode_word(d, "wait_all");
    if (!all && !decode_word(d, "wait_group")) return false;
    decode_end(d, !all, !all);
    const int64_t most = all ? -1 : decode_number(d, &d->l->o[0]);
    decode_emit(d, wait_for)->imm = most;
    return true;
}

bool decode_copy(decoder *d)
{
    static const char *const prefetch[] = {"L2::64B", "L2::128B", "L2::256B", NULL};
    if (strcmp(d->word[0], "cp") || !decode_word(d, "async")) return false;
    if (decode_group(d)) return true;
    const bool all = decode_word(d, "ca");
    if (!all && !decode_word(d, "cg")) decode_stop(d, "not known");
    const bool shared = decode_word(d, "shared") || decode_word(d, "shared::cta");
    if (!shared || !decode_word(d, "global")) decode_stop(d, "not known");
    decode_one_of(d, prefetch);
    const bool hint = decode_word(d, "L2::cache_hint");
    decode_end(d, 3 + hint, 4 + hint);
    const ptx_line *l = d->l;
    const int64_t n = decode_number(d, &l->o[2]);
    if (n != 16 && (!all || (n != 4 && n != 8))) decode_stop(d, "a size that is not known");
    const ptx_operand *fourth = l->n - hint == 4 ? &l->o[3] : NULL;
    const bool ignores = fourth && fourth->kind == OPERAND_REGISTER && fourth->bytes == 1;
    int32_t to, from, *x = decode_rows(d->p, 1);
    bool to_wide, from_wide;
    int64_t to_offset, from_offset;
    decode_address(d, &l->o[0], &to, &to_wide, &to_offset);
    decode_address(d, &l->o[1], &from, &from_wide, &from_offset);
    const int32_t filled = fourth && !ignores ? decode_source(d, fourth, 'r') : NO_ROW;
    const int32_t ignored = ignores ? decode_source(d, fourth, 'p') : NO_ROW;
    x[0] = (int32_t)to_offset;
    inst *in = decode_emit(d, begin_copy);
    in->o[0] = to, in->o[1] = from, in->o[2] = filled, in->o[3] = ignored;
    in->mode = (uint8_t)(to_wide | from_wide << 1);
    in->n = (uint8_t)n;
    in->imm = from_offset;
    in->x = x;
    return true;
}
