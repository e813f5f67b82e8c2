/* ops_warp.c - what the lanes of a warp do together: shuffles, votes, sums, warp barriers. */
#include "tests/gpu/decode.h"
#include "tests/gpu/machine.h"
#include "tests/gpu/race.h"
#include "tests/gpu/warp.h"

#include <string.h>

/* Waits until the lanes that o[4] names are there; then all of them go on behind the instruction. */
static bool ready(warp *w, const inst *in, uint32_t mask)
{
    if (!warp_together(w, mask, row(w, in->o[4])[__builtin_ctz(mask)])) return false;
    w->g[w->at].pc++;
    return true;
}

enum { SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_BFLY, SHUFFLE_IDX };

static void shuffle(warp *w, const inst *in, uint32_t mask)
{
    if (!ready(w, in, mask)) return;
    uint32_t from[LANES], *d = row_set(w, in->o[0]), inside = 0;
    memcpy(from, row(w, in->o[1]), sizeof from);
    const uint32_t *by = row(w, in->o[2]), *c = row(w, in->o[3]);
    for (uint32_t m = mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m), segment = (int)(c[l] >> 8 & 31), clamp = (int)(c[l] & 31),
                  b = (int)(by[l] & 31);
        const int most = (l & segment) | (clamp & ~segment);
        int to = in->mode == SHUFFLE_UP     ? l - b
                 : in->mode == SHUFFLE_DOWN ? l + b
                 : in->mode == SHUFFLE_BFLY ? l ^ b
                                            : (l & segment) | (b & ~segment);
        const bool in_range = in->mode == SHUFFLE_UP ? to >= most : to <= most;
        if (!in_range) to = l;
        inside |= (uint32_t)in_range << l;
        if (!(mask >> to & 1)) {
            machine_fault(w, l, FAULT_LAUNCH, "takes a value of lane %d, which does not take part", to);
            return;
        }
        d[l] = from[to];
    }
    if (in->x[0] == NO_ROW) return;
    uint32_t *p = row_set(w, in->x[0]);
    *p = (*p & ~mask) | inside;
}

enum { VOTE_ALL, VOTE_ANY, VOTE_UNI, VOTE_BALLOT };

static void vote(warp *w, const inst *in, uint32_t mask)
{
    if (!ready(w, in, mask)) return;
    const uint32_t yes = *row(w, in->o[1]) & mask;
    uint32_t *d = row_set(w, in->o[0]);
    if (in->mode == VOTE_BALLOT) {
        EACH_LANE(mask, d[l] = yes;);
        return;
    }
    const bool v = in->mode == VOTE_ALL ? yes == mask : in->mode == VOTE_ANY ? yes != 0 : yes == mask || !yes;
    *d = v ? *d | mask : *d & ~mask;
}

static uint64_t matched(const warp *w, const inst *in, int l)
{
    return in->n == 8 ? ((const uint64_t *)row(w, in->o[1]))[l] : row(w, in->o[1])[l];
}

static void match(warp *w, const inst *in, uint32_t mask)
{
    if (!ready(w, in, mask)) return;
    uint32_t same[LANES] = {0};
    for (uint32_t m = mask; m; m &= m - 1)
        for (uint32_t k = mask; k; k &= k - 1)
            if (matched(w, in, __builtin_ctz(m)) == matched(w, in, __builtin_ctz(k))) same[__builtin_ctz(m)] |= k & -k;
    const bool all = same[__builtin_ctz(mask)] == mask;
    uint32_t *d = row_set(w, in->o[0]);
    EACH_LANE(mask, d[l] = in->mode ? (all ? mask : 0) : same[l];);
    if (in->x[0] == NO_ROW) return;
    uint32_t *p = row_set(w, in->x[0]);
    *p = all ? *p | mask : *p & ~mask;
}

enum { REDUX_ADD, REDUX_MIN, REDUX_MAX, REDUX_AND, REDUX_OR, REDUX_XOR };

static uint32_t reduced(int op, bool is_signed, uint32_t a, uint32_t b)
{
    switch (op) {
    case REDUX_ADD: return a + b;
    case REDUX_MIN: return is_signed ? ((int32_t)a < (int32_t)b ? a : b) : a < b ? a : b;
    case REDUX_MAX: return is_signed ? ((int32_t)a > (int32_t)b ? a : b) : a > b ? a : b;
    case REDUX_AND: return a & b;
    case REDUX_OR: return a | b;
    default: return a ^ b;
    }
}

static void redux(warp *w, const inst *in, uint32_t mask)
{
    if (!ready(w, in, mask)) return;
    const uint32_t *a = row(w, in->o[1]);
    uint32_t v = a[__builtin_ctz(mask)], *d = row_set(w, in->o[0]);
    for (uint32_t m = mask & (mask - 1); m; m &= m - 1) v = reduced(in->mode, in->n, v, a[__builtin_ctz(m)]);
    EACH_LANE(mask, d[l] = v;);
}

static void active(warp *w, const inst *in, uint32_t mask)
{
    uint32_t *d = row_set(w, in->o[0]);
    EACH_LANE(mask, d[l] = mask;);
}

static void elect(warp *w, const inst *in, uint32_t mask)
{
    if (!ready(w, in, mask)) return;
    uint32_t *d = row_set(w, in->o[0]), *p = row_set(w, in->x[0]);
    EACH_LANE(mask, d[l] = (uint32_t)__builtin_ctz(mask););
    *p = (*p & ~mask) | (mask & -mask);
}

/* Groups at warp barriers at other places of the code, but of the same lanes, are let go together. */
static void warp_barrier(warp *w, const inst *in, uint32_t mask)
{
    const uint32_t members = row(w, in->o[4])[__builtin_ctz(mask)], needed = members & w->live;
    uint32_t there = mask;
    const inst *code = w->block->of->p->code;
    for (int i = 0; i < w->n_group; i++) {
        const group *g = &w->g[i];
        if (i != w->at && g->state == GROUP_AT_WARP && code[g->pc].run == warp_barrier &&
            row(w, code[g->pc].o[4])[__builtin_ctz(g->mask)] == members)
            there |= g->mask;
    }
    if ((there & needed) != needed) {
        warp_together(w, mask, members);
        return;
    }
    race_warp_barrier(w, there);
    warp_take(w, mask)->pc++;
    for (int i = 0; i < w->n_group; i++) {
        group *g = &w->g[i];
        if (i != w->at && g->state == GROUP_AT_WARP && (g->mask & there) && code[g->pc].run == warp_barrier)
            g->state = GROUP_RUNS, g->pc++;
    }
}

/* ---- decoding ---- */

/* Results d, or d|p into x[0]. */
static void take_pair(decoder *d, int32_t *to, int32_t *x, char letter)
{
    const ptx_operand *o = &d->l->o[0];
    x[0] = NO_ROW;
    if (o->kind == OPERAND_PAIR) x[0] = decode_result(d, &o->part[1], 'p');
    *to = decode_result(d, o->kind == OPERAND_PAIR ? &o->part[0] : o, letter);
}

/* d, its operands by letters, and the lanes that take part last. */
static inst *emit_together(decoder *d, inst_fn *run, const char *letters, char result)
{
    int32_t o[5] = {NO_ROW, NO_ROW, NO_ROW, NO_ROW, NO_ROW}, *x = decode_rows(d->p, 1);
    const int n = (int)strlen(letters);
    decode_end(d, n + 2, n + 2);
    for (int i = 0; i < n; i++) o[1 + i] = decode_source(d, &d->l->o[1 + i], letters[i]);
    o[4] = decode_source(d, &d->l->o[1 + n], 'r');
    take_pair(d, &o[0], x, result);
    inst *in = decode_emit(d, run);
    memcpy(in->o, o, sizeof o);
    in->x = x;
    in->flow = FLOW_SETS;
    return in;
}

static bool decode_shuffle(decoder *d)
{
    static const char *const modes[] = {"up", "down", "bfly", "idx", NULL};
    const int mode = decode_one_of(d, modes);
    if (mode < 0 || !decode_word(d, "sync") || !decode_word(d, "b32")) decode_stop(d, "not known");
    emit_together(d, shuffle, "rrr", 'r')->mode = (uint8_t)mode;
    return true;
}

static bool decode_vote(decoder *d)
{
    static const char *const modes[] = {"all", "any", "uni", "ballot", NULL};
    const int mode = decode_one_of(d, modes);
    if (mode < 0 || !decode_word(d, "sync") || !decode_word(d, mode == VOTE_BALLOT ? "b32" : "pred"))
        decode_stop(d, "not known");
    emit_together(d, vote, "p", mode == VOTE_BALLOT ? 'r' : 'p')->mode = (uint8_t)mode;
    return true;
}

static bool decode_match(decoder *d)
{
    const bool all = decode_word(d, "all"), wide = decode_word(d, "b64");
    if ((!all && !decode_word(d, "any")) || !decode_word(d, "sync") || (!wide && !decode_word(d, "b32")))
        decode_stop(d, "not known");
    inst *in = emit_together(d, match, wide ? "d" : "r", 'r');
    in->mode = all;
    in->n = wide ? 8 : 4;
    return true;
}

static bool decode_redux(decoder *d)
{
    static const char *const ops[] = {"add", "min", "max", "and", "or", "xor", NULL}, *const types[] = {"u32", "s32",
                                                                                                        "b32", NULL};
    const int op = decode_one_of(d, ops), type = decode_one_of(d, types);
    if (op < 0 || type < 0 || (type == 2) != (op >= REDUX_AND) || !decode_word(d, "sync")) decode_stop(d, "not known");
    inst *in = emit_together(d, redux, "r", 'r');
    in->mode = (uint8_t)op;
    in->n = type == 1;
    return true;
}

static bool decode_elect(decoder *d)
{
    if (!decode_word(d, "sync") || d->l->o[0].kind != OPERAND_PAIR) decode_stop(d, "not known");
    emit_together(d, elect, "", 'r');
    return true;
}

static bool decode_warp_barrier(decoder *d)
{
    if (!decode_word(d, "warp")) return false;
    if (!decode_word(d, "sync")) decode_stop(d, "not known");
    decode_end(d, 1, 1);
    const int32_t members = decode_source(d, &d->l->o[0], 'r');
    inst *in = decode_emit(d, warp_barrier);
    in->o[4] = members;
    in->flow = FLOW_SETS;
    return true;
}

bool decode_warp(decoder *d)
{
    const char *op = d->word[0];
    if (!strcmp(op, "shfl")) return decode_shuffle(d);
    if (!strcmp(op, "vote")) return decode_vote(d);
    if (!strcmp(op, "match")) return decode_match(d);
    if (!strcmp(op, "redux")) return decode_redux(d);
    if (!strcmp(op, "elect")) return decode_elect(d);
    if (!strcmp(op, "bar") || !strcmp(op, "barrier")) return decode_warp_barrier(d);
    if (strcmp(op, "activemask") || !decode_word(d, "b32")) return false;
    decode_end(d, 1, 1);
    const int32_t to = decode_result(d, &d->l->o[0], 'r');
    decode_emit(d, active)->o[0] = to;
    return true;
}
