/* bulk.c - mbarrier and bulk copies (cp.async.bulk) of sm_90.
 *
 * A barrier is a word of 64 bits in shared memory: threads that are expected in a phase, those that are still missing,
 * bytes that are still under way, and the phase's parity. A phase ends where nothing is missing and nothing under way.
 * A bulk copy is carried out late: when somebody asks a barrier, the seed decides whether one of the block's copies
 * goes on first. */
#include "tests/gpu/access.h"
#include "tests/gpu/bulk.h"
#include "tests/gpu/decode.h"

#include <stdlib.h>
#include <string.h>

#include "tests/gpu/ptx_lex.h"

enum { COUNT_BITS = 20, BYTES_BITS = 21 };

typedef struct barrier_word {
    uint64_t expected : COUNT_BITS, missing : COUNT_BITS, bytes : BYTES_BITS, unused : 2, parity : 1;
} barrier_word;
_Static_assert(sizeof(barrier_word) == 8, "a barrier is 8 bytes");

typedef struct bulk_copy {
    warp *w;
    int lane;
    const inst *in;
    uint64_t to, from, barrier; /* barrier 0: to global memory, of the lane's group */
    uint32_t bytes, group;
} bulk_copy;

typedef struct bulk_copies {
    int n;
    bulk_copy *list;
    uint32_t closed[WARPS][LANES]; /* groups of each lane */
} bulk_copies;

static bulk_copies *bulk_of(block *b)
{
    if (!b->bulk) b->bulk = calloc(1, sizeof *b->bulk);
    if (!b->bulk) abort();
    return b->bulk;
}

static barrier_word *barrier_at(warp *w, int l, uint64_t at, int touch)
{
    return (barrier_word *)access_at(w, l, SPACE_SHARED, at, 8, 8, touch);
}

static void end_phase(barrier_word *b)
{
    if (b->missing || b->bytes) return;
    b->missing = b->expected;
    b->parity ^= 1;
}

/* ---- bulk copies ---- */

static void carry_out(const bulk_copy *c)
{
    warp *w = c->w;
    const inst *now = w->now;
    w->now = c->in;
    const bool in = c->barrier != 0;
    uint8_t *to = access_at(w, c->lane, in ? SPACE_SHARED : SPACE_GLOBAL, c->to, c->bytes, 16, TOUCH_WRITE);
    const uint8_t *from = access_at(w, c->lane, in ? SPACE_GLOBAL : SPACE_SHARED, c->from, c->bytes, 16, TOUCH_READ);
    barrier_word *b = in ? barrier_at(w, c->lane, c->barrier, TOUCH_READ | TOUCH_WRITE | TOUCH_STRONG) : NULL;
    if (to && from) memcpy(to, from, c->bytes);
    if (b) {
        b->bytes -= c->bytes;
        end_phase(b);
        race_strong(w, c->lane, WINDOW_SHARED | c->barrier, TOUCH_WRITE, ORDER_RELEASE);
    }
    w->now = now;
}

static void carry_out_at(bulk_copies *c, int i)
{
    const bulk_copy one = c->list[i];
    c->list[i] = c->list[--c->n];
    if (!c->n) {
        free(c->list);
        c->list = NULL;
    }
    carry_out(&one);
}

void bulk_go_on(block *b)
{
    bulk_copies *c = b->bulk;
    if (c && c->n && machine_random(&b->of->random) & 1)
        carry_out_at(c, (int)(machine_random(&b->of->random) % (uint64_t)c->n));
}

void bulk_end(block *b)
{
    bulk_copies *c = b->bulk;
    if (!c) return;
    if (c->n && !b->of->fault) {
        c->list[0].w->now = c->list[0].in;
        machine_fault(c->list[0].w, c->list[0].lane, FAULT_LAUNCH, "a bulk copy that nobody has waited for");
    }
    free(c->list);
    free(c);
    b->bulk = NULL;
}

static uint64_t address(const warp *w, int32_t r, bool wide, int l)
{
    return wide ? ((const uint64_t *)row(w, r))[l] : row(w, r)[l];
}

/* o: to, from, bytes, barrier; mode: which of to, from and barrier are wide; x: their offsets. */
static void bulk(warp *w, const inst *in, uint32_t mask)
{
    bulk_copies *c = bulk_of(w->block);
    for (uint32_t m = mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        bulk_copy one = {.w = w, .lane = l, .in = in, .group = c->closed[w->index][l], .bytes = row(w, in->o[2])[l]};
        one.to = address(w, in->o[0], in->mode & 1, l) + (uint64_t)in->x[0];
        one.from = address(w, in->o[1], in->mode & 2, l) + (uint64_t)in->x[1];
        if (in->o[3] != NO_ROW) one.barrier = address(w, in->o[3], in->mode & 4, l) + (uint64_t)in->x[2];
        if (one.bytes % 16 || !one.bytes) {
            machine_fault(w, l, FAULT_LAUNCH, "a bulk copy of %u bytes", one.bytes);
            return;
        }
        /* What is copied may be touched by nobody from now on; the barrier hands over what the lane knows. */
        const bool to_shared = one.barrier != 0;
        if (!access_at(w, l, to_shared ? SPACE_SHARED : SPACE_GLOBAL, one.to, one.bytes, 16,
                       TOUCH_WRITE | (to_shared ? TOUCH_ASYNC : 0)))
            return;
        if (!access_at(w, l, to_shared ? SPACE_GLOBAL : SPACE_SHARED, one.from, one.bytes, 16, TOUCH_READ)) return;
        *GROW(c->list, c->n) = one;
    }
}

static void close_group(warp *w, const inst *in, uint32_t mask)
{
    (void)in;
    for (uint32_t m = mask; m; m &= m - 1) bulk_of(w->block)->closed[w->index][__builtin_ctz(m)]++;
}

static void wait_groups(warp *w, const inst *in, uint32_t mask)
{
    bulk_copies *c = bulk_of(w->block);
    for (int i = 0; i < c->n;) {
        const bulk_copy *one = &c->list[i];
        const bool mine = one->w == w && mask >> one->lane & 1 && !one->barrier;
        if (mine && (int64_t)one->group + in->imm < (int64_t)c->closed[w->index][one->lane]) carry_out_at(c, i);
        else i++;
    }
}

/* ---- mbarrier ---- */

enum {
    MBARRIER_INIT,
    MBARRIER_INVAL,
    MBARRIER_ARRIVE,
    MBARRIER_EXPECT,
    MBARRIER_COMPLETE,
    MBARRIER_ARRIVE_EXPECT,
    MBARRIER_TEST,
    MBARRIER_TEST_PARITY
};

/* False after a fault. */
static bool change(warp *w, const inst *in, int l, barrier_word *b, uint32_t by)
{
    switch (in->kind) {
    case MBARRIER_INIT: *b = (barrier_word){.expected = by, .missing = by}; return true;
    case MBARRIER_INVAL: memset(b, GPU_POISON, sizeof *b); return true;
    case MBARRIER_EXPECT: b->bytes += by; return true;
    case MBARRIER_COMPLETE: b->bytes -= by; break;
    case MBARRIER_ARRIVE_EXPECT: b->bytes += by; by = 1; /* fallthrough */
    default:
        if (by > b->missing) {
            machine_fault(w, l, FAULT_LAUNCH, "%u arrive where %u are missing", by, (unsigned)b->missing);
            return false;
        }
        b->missing -= by;
    }
    end_phase(b);
    return true;
}

/* o: state, barrier, operand; mode: the barrier's address is wide. */
static void barrier_change(warp *w, const inst *in, uint32_t mask)
{
    const bool sets = in->kind == MBARRIER_INIT || in->kind == MBARRIER_INVAL;
    for (uint32_t m = mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        const uint64_t at = address(w, in->o[1], in->mode, l) + (uint64_t)in->imm;
        barrier_word *b = barrier_at(w, l, at, sets ? TOUCH_WRITE : TOUCH_READ | TOUCH_WRITE | TOUCH_STRONG);
        if (!b) return;
        uint64_t before;
        memcpy(&before, b, 8);
        if (!change(w, in, l, b, in->o[2] == NO_ROW ? 1 : row(w, in->o[2])[l])) return;
        if (!sets) race_strong(w, l, WINDOW_SHARED | at, TOUCH_WRITE, in->order);
        if (in->o[0] != NO_ROW) ((uint64_t *)row_set(w, in->o[0]))[l] = before;
    }
}

/* o: predicate, barrier, state or parity. */
static void barrier_test(warp *w, const inst *in, uint32_t mask)
{
    uint32_t yes = 0, *d = row_set(w, in->o[0]);
    bulk_go_on(w->block);
    for (uint32_t m = mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        const uint64_t at = address(w, in->o[1], in->mode, l) + (uint64_t)in->imm;
        const barrier_word *b = barrier_at(w, l, at, TOUCH_READ | TOUCH_STRONG);
        if (!b) return;
        const bool is_parity = in->kind == MBARRIER_TEST_PARITY;
        const uint64_t phase = is_parity ? row(w, in->o[2])[l] : ((const uint64_t *)row(w, in->o[2]))[l] >> 63;
        if (phase == b->parity) continue;
        yes |= 1u << l;
        race_strong(w, l, WINDOW_SHARED | at, TOUCH_READ, ORDER_ACQUIRE);
    }
    *d = (*d & ~mask) | yes;
}

static void pending_count(warp *w, const inst *in, uint32_t mask)
{
    uint32_t *d = row_set(w, in->o[0]);
    const uint64_t *state = (const uint64_t *)row(w, in->o[1]);
    EACH_LANE(mask, d[l] = state[l] >> COUNT_BITS & ((1u << COUNT_BITS) - 1););
}

/* ---- decoding ---- */

static void take_order(decoder *d)
{
    static const char *const orders[] = {"release", "acquire", "relaxed", NULL}, *const scopes[] = {"cta", "cluster",
                                                                                                    NULL};
    static const char *const spaces[] = {"shared::cta", "shared", "shared::cluster", NULL};
    decode_one_of(d, orders);
    decode_one_of(d, scopes);
    if (decode_one_of(d, spaces) < 0 || !decode_word(d, "b64")) decode_stop(d, "not known");
}

static bool decode_barrier_test(decoder *d, bool parity)
{
    const bool hint = d->l->n == 4; /* how long it may sleep */
    const bool relaxed = decode_word(d, "relaxed");
    take_order(d);
    decode_end(d, 3, 4);
    if (relaxed || (hint && strcmp(d->word[1], "try_wait"))) decode_stop(d, "not known");
    int32_t at;
    bool wide;
    int64_t offset;
    decode_address(d, &d->l->o[1], &at, &wide, &offset);
    const int32_t phase = decode_source(d, &d->l->o[2], parity ? 'r' : 'd'), to = decode_result(d, &d->l->o[0], 'p');
    inst *in = decode_emit(d, barrier_test);
    in->o[0] = to, in->o[1] = at, in->o[2] = phase;
    in->kind = parity ? MBARRIER_TEST_PARITY : MBARRIER_TEST;
    in->mode = wide;
    in->imm = offset;
    return true;
}

static bool decode_barrier(decoder *d)
{
    if (decode_word(d, "pending_count")) {
        if (!decode_word(d, "b64")) decode_stop(d, "not known");
        decode_end(d, 2, 2);
        const int32_t a = decode_source(d, &d->l->o[1], 'd'), r = decode_result(d, &d->l->o[0], 'r');
        inst *in = decode_emit(d, pending_count);
        in->o[0] = r, in->o[1] = a;
        return true;
    }
    if (decode_word(d, "test_wait") || decode_word(d, "try_wait"))
        return decode_barrier_test(d, decode_word(d, "parity"));
    static const char *const whats[] = {"init", "inval", "arrive", "expect_tx", "complete_tx", NULL};
    int what = decode_one_of(d, whats);
    if (what == MBARRIER_ARRIVE && decode_word(d, "expect_tx")) what = MBARRIER_ARRIVE_EXPECT;
    if (what < 0) decode_stop(d, "not known");
    const bool relaxed = decode_word(d, "relaxed"), gives = what == MBARRIER_ARRIVE || what == MBARRIER_ARRIVE_EXPECT;
    take_order(d);
    const int fewest = what == MBARRIER_INVAL ? 1 : 2;
    decode_end(d, fewest, 3);
    const ptx_operand *o = d->l->o + (gives && d->l->o[0].kind != OPERAND_ADDRESS);
    const int has = d->l->n - (int)(o - d->l->o);
    int32_t at;
    bool wide;
    int64_t offset;
    decode_address(d, &o[0], &at, &wide, &offset);
    const int32_t by = has > 1 ? decode_source(d, &o[1], 'r') : NO_ROW;
    const int32_t to = o != d->l->o ? decode_result(d, &d->l->o[0], 'd') : NO_ROW;
    inst *in = decode_emit(d, barrier_change);
    in->o[0] = to, in->o[1] = at, in->o[2] = by;
    in->kind = (uint8_t)what;
    in->mode = wide;
    in->imm = offset;
    in->order = relaxed || !gives ? ORDER_RELAXED : ORDER_RELEASE;
    return true;
}

static bool decode_bulk_group(decoder *d)
{
    if (decode_word(d, "commit_group")) {
        decode_end(d, 0, 0);
        decode_emit(d, close_group);
        return true;
    }
    if (!decode_word(d, "wait_group")) return false;
    decode_word(d, "read");
    decode_end(d, 1, 1);
    const int64_t most = decode_number(d, &d->l->o[0]);
    decode_emit(d, wait_groups)->imm = most;
    return true;
}

/* cp.async.bulk.shared.global.mbarrier or .global.shared.bulk_group: the first space is where it goes. */
static bool decode_bulk(decoder *d)
{
    if (decode_bulk_group(d)) return true;
    if (d->n_word < 6) decode_stop(d, "not known");
    const bool in_shared = !strncmp(d->word[3], "shared", 6);
    const char *other = d->word[4];
    const bool known = in_shared ? !strcmp(other, "global") && decode_word(d, "mbarrier::complete_tx::bytes")
                                 : !strcmp(d->word[3], "global") && !strncmp(other, "shared", 6) &&
                                       decode_word(d, "bulk_group");
    if (!known) decode_stop(d, "not known");
    d->taken[3] = d->taken[4] = true;
    const bool hint = decode_word(d, "L2::cache_hint");
    decode_end(d, 3 + in_shared + hint, 3 + in_shared + hint);
    int32_t r[3] = {NO_ROW, NO_ROW, NO_ROW}, *x = decode_rows(d->p, 3);
    bool wide[3] = {false};
    for (int i = 0; i < 2 + in_shared; i++) {
        int64_t offset;
        decode_address(d, &d->l->o[i == 2 ? 3 : i], &r[i], &wide[i], &offset);
        x[i] = (int32_t)offset;
    }
    const int32_t bytes = decode_source(d, &d->l->o[2], 'r');
    inst *in = decode_emit(d, bulk);
    in->o[0] = r[0], in->o[1] = r[1], in->o[2] = bytes, in->o[3] = r[2];
    in->mode = (uint8_t)(wide[0] | wide[1] << 1 | wide[2] << 2);
    in->x = x;
    return true;
}

bool decode_mbarrier(decoder *d)
{
    if (!strcmp(d->word[0], "mbarrier")) return decode_barrier(d);
    if (strcmp(d->word[0], "cp") || d->n_word < 4 || strcmp(d->word[1], "async") || strcmp(d->word[2], "bulk"))
        return false;
    d->taken[1] = d->taken[2] = true;
    return decode_bulk(d);
}
