/* rig.h - one op on a program made by hand: operands in an arena with sentinels, run on any instruction set and number
 * of workers.
 *
 * Everything outside the output must stay as it was: rig_same compares the whole arena, byte for byte. */
#pragma once
#include "base/half.h"
#include "base/mem.h"
#include "cpu/cpu.h"
#include "cpu/cpu_backend.h"
#include "core/kv_codes.h"
#include "tensor/quant.h"

#include "test.h"

#include <math.h>

enum { RIG_TENSORS = 12, RIG_GAP = 256, RIG_ROWS = 512, RIG_PAGES = 64 };

typedef struct rig {
    program p;
    tensor t[RIG_TENSORS];
    weight w[RIG_TENSORS];
    state states[1];
    op ops[1];
    rope_set ropes[1];
    int32_t pos[RIG_ROWS], seq[RIG_ROWS], token[RIG_ROWS], wanted[RIG_ROWS], seq_row[RIG_ROWS + 1], seq_len[RIG_ROWS],
        seq_rope[RIG_ROWS];
    int32_t page[RIG_ROWS * RIG_PAGES], slot_read[RIG_ROWS], slot_write[RIG_ROWS];
    segment seg;
    weight_set set;
    dev d;
    step st;
    run r;
    held_weight held[RIG_TENSORS];
    kv_store kv[1];
    slot_store slots[1];
    uint8_t *act;
    uint64_t used, cap;
    void *own[RIG_TENSORS], *kv_memory;
    ref out[1]; /* seg.out */
    uint64_t kv_bytes;
    uint32_t n_own;
} rig;

static uint64_t rig_seed = 88172645463325252ull;
static inline uint32_t rig_random(void)
{
    rig_seed ^= rig_seed << 13;
    rig_seed ^= rig_seed >> 7;
    rig_seed ^= rig_seed << 17;
    return (uint32_t)(rig_seed >> 16);
}
/* Roughly normal, mean 0, deviation 1. */
static inline float rig_normal(void)
{
    float s = 0;
    for (int i = 0; i < 4; i++) s += (float)(rig_random() & 0xffff) / 65536.0f - 0.5f;
    return s * 1.732f;
}

static inline void rig_open(rig *g, uint64_t act_bytes)
{
    memset(g, 0, sizeof *g);
    g->cap = act_bytes + 64 * 1024;
    g->act = mem_map(g->cap);
    assert_non_null(g->act);
    for (uint64_t i = 0; i < g->cap; i++) g->act[i] = (uint8_t)(i * 167 + 13);
    g->used = RIG_GAP;
    g->p.tensors = g->t;
    g->p.weights = g->w;
    g->p.states = g->states;
    g->p.ropes = g->ropes;
    g->p.ops = g->ops;
    g->p.n_tensor = 1;
    g->seg.p = &g->p;
    g->seg.on = &g->d;
    g->seg.be = &cpu_backend;
    g->seg.out = g->out;
    g->d.p = &g->p;
    g->d.w = &g->set;
    g->set.held = g->held;
    g->d.kv = g->kv;
    g->d.slots = g->slots;
    g->r = cpu_run_of(&g->d, &g->p, &g->st, g->act);
}

static inline void rig_close(rig *g)
{
    mem_unmap(g->act, g->cap);
    for (uint32_t i = 0; i < g->n_own; i++) mem_free(g->own[i]);
    mem_unmap(g->kv_memory, g->kv_bytes);
}

static inline void *rig_own(rig *g, uint64_t bytes)
{
    assert_true(g->n_own < RIG_TENSORS);
    void *p = mem_alloc(bytes);
    assert_non_null(p);
    g->own[g->n_own++] = p;
    return p;
}

static inline float *rig_at(rig *g, ref t) { return (float *)(g->act + g->t[t].off); }

/* An activation [rows of AXIS_TOK, dim] of random values. */
static inline ref rig_act(rig *g, int64_t dim)
{
    assert_true(g->p.n_tensor < RIG_TENSORS);
    ref t = g->p.n_tensor++;
    uint64_t bytes = (uint64_t)g->st.n[AXIS_TOK] * (uint64_t)dim * 4;
    assert_true(g->used + bytes + 2 * RIG_GAP <= g->cap);
    g->t[t] = (tensor){.kind = TENSOR_ACT, .rank = 1, .axis = AXIS_TOK, .dim = {dim}, .off = g->used};
    float *x = rig_at(g, t);
    for (uint64_t i = 0; i < bytes / 4; i++) x[i] = rig_normal();
    g->used += (bytes + RIG_GAP + 63) / 64 * 64;
    return t;
}

/* An activation of another row symbol, `rows` rows of `dim` random values. */
static inline ref rig_act_of(rig *g, int symbol, int rows, int64_t dim)
{
    int32_t kept = g->st.n[AXIS_TOK];
    g->st.n[AXIS_TOK] = rows;
    ref t = rig_act(g, dim);
    g->st.n[AXIS_TOK] = kept;
    g->st.n[symbol] = rows;
    g->t[t].axis = (uint8_t)symbol;
    return t;
}

/* A constant vector. */
static inline ref rig_const(rig *g, int64_t n)
{
    ref t = g->p.n_tensor++;
    float *x = rig_own(g, (uint64_t)n * 4);
    for (int64_t i = 0; i < n; i++) x[i] = rig_normal();
    g->t[t] = (tensor){.kind = TENSOR_CONST, .rank = 1, .dim = {n}, .data = x};
    return t;
}

/* Sinks of n heads; the last one is farther above all scores than exponentials reach. */
static inline ref rig_sinks(rig *g, int64_t n)
{
    const ref t = rig_const(g, n);
    ((float *)g->t[t].data)[n - 1] = 120;
    return t;
}

/* A weight [rows, cols], its bytes `shift` bytes off any alignment, with exactly the memory it needs. */
static inline ref rig_weight(rig *g, dtype type, int64_t rows, int64_t cols, int shift)
{
    ref t = g->p.n_tensor++;
    uint32_t i = g->p.n_weight++;
    uint64_t row_bytes = (uint64_t)cols / dtype_info[type].weights * dtype_info[type].bytes;
    uint8_t *data = rig_own(g, row_bytes * (uint64_t)rows + (uint64_t)shift);
    data += shift;
    float *row = mem_array((size_t)cols, 4);
    assert_non_null(row);
    for (int64_t n = 0; n < rows; n++) {
        for (int64_t k = 0; k < cols; k++) row[k] = rig_normal();
        if (quant_can_encode(type)) quant_encode(type, row, data + (uint64_t)n * row_bytes, (uint64_t)cols);
        else /* any bytes decode to something; small exponents keep it finite */
            for (uint64_t b = 0; b < row_bytes; b++) data[(uint64_t)n * row_bytes + b] = (uint8_t)(rig_random() & 0x2f);
    }
    mem_free(row);
    g->w[i] = (weight){.name = "w", .rows = rows, .cols = cols};
    g->t[t] = (tensor){.kind = TENSOR_WEIGHT, .rank = 2, .dim = {rows, cols}, .weight = i};
    g->held[i] = (held_weight){.data = data, .type = type, .stride = row_bytes, .rows = rows, .cols = cols};
    return t;
}

/* Sequences of `rows[i]` rows each, the last row of sequence i at position last[i]; each has its own pages, in mixed
 * order. */
static inline void rig_sequences(rig *g, int n_seq, const int *rows, const int *last)
{
    int32_t row = 0;
    g->st.page_cap = RIG_PAGES;
    for (int s = 0; s < n_seq; s++) {
        g->seq_row[s] = row;
        g->seq_len[s] = last[s] + 1;
        for (int i = 0; i < rows[s]; i++, row++) {
            g->seq[row] = s;
            g->pos[row] = last[s] - rows[s] + 1 + i;
        }
        for (int i = 0; i < RIG_PAGES; i++) g->page[s * RIG_PAGES + i] = i * n_seq + (s + i) % n_seq;
    }
    g->seq_row[n_seq] = row;
    g->st.n[AXIS_TOK] = row;
    g->st.n[AXIS_OUT] = row;
    g->st.n_seq = n_seq;
    g->st.tok.pos = g->pos;
    g->st.tok.seq = g->seq;
    g->st.tok.token = g->token;
    g->st.out = g->wanted;
    g->st.tok.seq_row = g->seq_row;
    g->st.tok.seq_len = g->seq_len;
    g->st.seq_rope = g->seq_rope;
    g->st.page = g->page;
}

/* Every token of one side of a cache of codes: a vector of its own. */
static inline void rig_cache_codes(const kv_store *s, bool values, int pages)
{
    int32_t dim = values ? s->v_dim : s->k_dim;
    kv_codes f = kv_codes_of(values ? s->v_type : s->k_type, dim, values);
    float *x = mem_array((size_t)dim, 4);
    assert_non_null(x);
    for (int page = 0; page < pages; page++)
        for (int head = 0; head < s->heads; head++)
            for (int at = 0; at < PAGE_TOKENS; at++) {
                for (int d = 0; d < dim; d++) x[d] = rig_normal();
                kv_token_put(&f, kv_tile(s, values, page, head), values, x, dim, at);
            }
    mem_free(x);
}

/* Element d of the key or value at `at` of a tile. */
static inline float rig_cached(const kv_store *s, bool values, uint8_t *tile, int at, int d)
{
    dtype t = values ? s->v_type : s->k_type;
    int64_t i = values ? (int64_t)at * s->v_dim + d : (int64_t)d * PAGE_TOKENS + at;
    float x;
    if (kv_is_codes(t)) {
        kv_codes f = kv_codes_of(t, values ? s->v_dim : s->k_dim, values);
        i = d / f.block * PAGE_TOKENS + at;
        x = (float)kv_code_get(&f, tile, values, d, at) * f16_to_f32(kv_scales(&f, tile)[i]) /
            (float)(f.top ? f.top : 1);
        return f.base ? x + f16_to_f32(kv_bases(&f, tile)[i]) : x;
    }
    quant_decode(t, tile + i * dtype_info[t].bytes, &x, 1);
    return x;
}

/* A cache of `pages` pages, filled with noise as if kv_put had written every position. */
static inline void rig_cache(rig *g, int heads, int k_dim, int v_dim, dtype k_type, dtype v_type, int pages)
{
    g->states[0] = (state){.heads = heads, .k_dim = k_dim, .v_dim = v_dim};
    g->p.n_state = 1;
    kv_store *s = &g->kv[0];
    kv_layout(s, &g->states[0], k_type, v_type);
    g->kv_bytes = (s->k_page + s->v_page) * (uint64_t)pages;
    g->kv_memory = mem_map(g->kv_bytes);
    assert_non_null(g->kv_memory);
    s->k = g->kv_memory;
    s->v = s->k + s->k_page;
    s->stride = s->k_page + s->v_page;
    g->d.cache.n_page[0] = pages;
    for (int side = 0; side < 2; side++) {
        dtype t = side ? v_type : k_type;
        if (kv_is_codes(t)) rig_cache_codes(s, side, pages);
        for (int page = 0; page < pages && !kv_is_codes(t); page++) {
            uint8_t *to = kv_tile(s, side, page, 0);
            uint64_t n = (side ? s->v_page : s->k_page) / dtype_info[t].bytes;
            for (uint64_t i = 0; i < n; i++) {
                float x = rig_normal();
                uint16_t h = f32_to_f16(x);
                memcpy(to + i * dtype_info[t].bytes, t == DTYPE_F16 ? (void *)&h : (void *)&x, dtype_info[t].bytes);
            }
        }
    }
}

/* `n` slots of noise, with rows apart. Sequence i reads slot 2 i + 1 and writes 2 i. */
static inline void rig_slots(rig *g, int64_t floats, int64_t row_floats, int n)
{
    g->states[0] = (state){.kind = STATE_SLOT, .axis = AXIS_TOK, .slot_floats = floats};
    g->p.n_state = 1;
    g->slots[0].rows = (uint64_t)floats;
    g->slots[0].stride = (uint64_t)(floats + SLOT_ROWS_MAX * row_floats + LANES - 1) / LANES * LANES;
    g->kv_bytes = g->slots[0].stride * (uint64_t)n * sizeof(float);
    g->kv_memory = mem_map(g->kv_bytes);
    assert_non_null(g->kv_memory);
    g->slots[0].at = g->kv_memory;
    for (uint64_t i = 0; i < g->kv_bytes / sizeof(float); i++) g->slots[0].at[i] = rig_normal();
    for (int i = 0; i < n / 2; i++) {
        g->slot_read[i] = 2 * i + 1;
        g->slot_write[i] = 2 * i;
    }
    g->st.slot_read = g->slot_read;
    g->st.slot_write = g->slot_write;
}

/* The next step of sequence 0 reads the slot that this one has written. */
static inline void rig_turn_slots(rig *g)
{
    const int32_t written = g->slot_write[0];
    g->slot_write[0] = g->slot_read[0];
    g->slot_read[0] = written;
}

static inline void rig_worker(void *arg, int worker, int workers)
{
    rig *g = ((void **)arg)[0];
    const op *o = ((void **)arg)[1];
    cpu_kernel(g->set.table, o->kind)(&g->r, o, worker, workers);
}

static inline void rig_run(rig *g, const cpu_table *table, int workers, const op *o)
{
    err e = {0};
    g->set.table = table;
    g->ops[0] = *o;
    g->p.n_op = 1;
    assert_ok(pool_open(&g->set.team, workers, &e), &e);
    assert_ok(cpu_work_open(&g->d.work, &g->p, g->d.max_rows, &g->d.cache, workers, &e), &e);
    g->r = cpu_run_of(&g->d, &g->p, &g->st, g->act);
    pool_run(g->set.team, rig_worker, (void *[]){g, (void *)o});
    cpu_work_close(&g->d.work);
    pool_close(g->set.team);
}

/* Runs the op as reference on one worker, then on every instruction set with 1, 2 and 3 workers, and compares all
 * memory. Leaves the reference's output in place. */
static inline void rig_same(rig *g, const op *o, const char *what)
{
    uint8_t *before = mem_alloc(g->cap), *want = mem_alloc(g->cap), *kv_before = mem_alloc(g->kv_bytes),
            *kv_want = mem_alloc(g->kv_bytes);
    assert_true(before && want && kv_before && kv_want);
    memcpy(before, g->act, g->cap);
    if (g->kv_bytes) memcpy(kv_before, g->kv_memory, g->kv_bytes);
    rig_run(g, cpu_kernels_named("c"), 1, o);
    memcpy(want, g->act, g->cap);
    if (g->kv_bytes) memcpy(kv_want, g->kv_memory, g->kv_bytes);
    for (int i = 0; cpu_tables[i]; i++)
        for (int workers = 1; workers <= 3; workers++) {
            const cpu_table *table = cpu_tables[i];
            if (table->inexact || !cpu_kernels_named(table->isa)) continue;
            memcpy(g->act, before, g->cap);
            if (g->kv_bytes) memcpy(g->kv_memory, kv_before, g->kv_bytes);
            rig_run(g, table, workers, o);
            if (g->kv_bytes && memcmp(g->kv_memory, kv_want, g->kv_bytes))
                fail_msg("%s: %s with %d workers leaves another cache than the reference", what, table->isa, workers);
            for (uint64_t b = 0; b < g->cap; b++)
                if (g->act[b] != want[b])
                    fail_msg("%s: %s with %d workers differs from the reference at byte %llu (output starts at %llu)",
                             what, table->isa, workers, (unsigned long long)b,
                             (unsigned long long)(o->out ? g->t[o->out].off : 0));
        }
    memcpy(g->act, want, g->cap);
    mem_free(before);
    mem_free(want);
    mem_free(kv_before);
    mem_free(kv_want);
}
