/* step_rig.h - a model for tests of steps on the wire: two groups of pages, one of them with a window, an encoder's
 * group, slots, tables of positions whose length matters; and what must hold of every step that was read. */
#pragma once
#include "core/rope.h"
#include "net/step_code.h"

#include <stdlib.h>

enum {
    STEP_CTX = 1000,
    STEP_SEQS = 12,
    STEP_ROWS = 300,
    STEP_ENC = 200,
    STEP_OUTS = 40,
    STEP_DIM = 3,
    STEP_VOCAB = 50,
    STEP_PAGES = 300,
    STEP_SLOTS = 30,
    STEP_APART = 5,
    STEP_WINDOW = 100,
    STEP_TRAINED = 100
};

static inline program *step_program(void)
{
    program *p = program_new(NULL);
    if (!p) abort();
    rope_params rp = {.scaling = ROPE_DYNAMIC,
                      .dims = 4,
                      .theta = 10000,
                      .factor = 2,
                      .original = STEP_TRAINED,
                      .max_positions = STEP_TRAINED};
    p->vocab = STEP_VOCAB;
    p->dim = STEP_DIM;
    p->n_used = 2;
    p->n_group = 3;
    p->group_window[1] = STEP_WINDOW;
    p->group_axis[0] = p->group_axis[1] = AXIS_TOK;
    p->group_axis[2] = AXIS_ENC;
    if (program_rope(p, &rp, STEP_CTX, NULL) != 0 || rope_fill(&p->ropes[0], NULL)) abort();
    return p;
}

static inline step_limits step_rig_limits(const program *p)
{
    static const int rows[AXIS_COUNT] = {
        [AXIS_TOK] = STEP_ROWS, [AXIS_OUT] = STEP_OUTS, [AXIS_ENC] = STEP_ENC, [AXIS_SEQ] = STEP_SEQS};
    cache_options cache = {
        .n_page = {STEP_PAGES, STEP_PAGES / 2, STEP_PAGES}, .n_slot = STEP_SLOTS, .slot_rows = STEP_APART};
    step_limits l;
    if (step_limits_of(&l, p, rows, STEP_SEQS, STEP_CTX, &cache, NULL)) abort();
    return l;
}

/* ---- what a device relies on, written from core/step.h alone; NULL: it holds */

static inline const char *row_fault(const step *st, const step_limits *l, int32_t s)
{
    for (int32_t i = st->tok.seq_row[s]; i < st->tok.seq_row[s + 1]; i++) {
        const int32_t id = st->tok.token[i], pos = st->tok.pos[i];
        if (i >= st->n[AXIS_TOK] || st->tok.seq[i] != s) return "sequence of a row";
        if (pos < 0 || pos != st->tok.seq_len[s] - (st->tok.seq_row[s + 1] - i)) return "position";
        if (id >= l->vocab || (id < 0 && ~id >= l->rows[AXIS_TOK])) return "id";
    }
    for (int32_t i = st->enc.seq_row[s]; i < st->enc.seq_row[s + 1]; i++)
        if (i >= st->n[AXIS_ENC] || st->enc.seq[i] != s || st->enc.pos[i] != i - st->enc.seq_row[s] ||
            st->enc.token[i] < 0)
            return "encoder row";
    return NULL;
}

static inline const char *page_fault(const step *st, const step_limits *l, int32_t s, uint32_t g)
{
    const bool own = l->axis[g] == AXIS_TOK;
    const int32_t len = own ? st->tok.seq_len[s] : st->enc.seq_len[s];
    const int32_t first = st->tok.seq_len[s] - (st->tok.seq_row[s + 1] - st->tok.seq_row[s]);
    for (int32_t k = 0; k * PAGE_TOKENS < len; k++) {
        const int32_t page = st->page[((int64_t)g * st->n_seq + s) * st->page_cap + k];
        const int32_t last = (k + 1) * PAGE_TOKENS - 1; /* position of the page */
        const bool seen = !own || !l->window[g] || last >= first - l->window[g] + 1;
        if (page >= l->n_page[g] || page < -1 || (page < 0 && seen)) return "page";
    }
    return NULL;
}

static inline const char *sequence_fault(const step *st, const step_limits *l, const program *p, int32_t s)
{
    const int32_t from = st->slot_read[s], to = st->slot_write[s];
    const char *fault = row_fault(st, l, s);
    if (st->tok.seq_len[s] > l->ctx || st->enc.seq_len[s] > l->ctx) return "length";
    if (from < 0 || from >= l->n_slot || to < 0 || to >= l->n_slot || from == to) return "slot";
    const int32_t n = st->tok.seq_row[s + 1] - st->tok.seq_row[s], taken = step_taken(st, s), apart = step_apart(st, s);
    if (taken < 0 || taken > l->slot_rows || taken > st->tok.seq_len[s] - n) return "rows taken";
    if (apart < 0 || apart > l->slot_rows || apart > taken + n) return "rows apart";
    for (uint32_t r = 0; r < l->n_rope; r++) {
        const int32_t v = st->seq_rope[(int64_t)r * st->n_seq + s];
        if (v < 0 || (uint32_t)v >= p->ropes[r].n_variant || !rope_serial(&p->ropes[r], v)) return "table of positions";
        if (v && rope_length(&p->ropes[r], v) < st->tok.seq_len[s]) return "length of a table of positions";
    }
    for (uint32_t g = 0; g < l->n_group && !fault; g++) fault = page_fault(st, l, s, g);
    return fault;
}

static inline bool ascending(const int32_t *p, int32_t n, int32_t end)
{
    for (int32_t i = 0; i < n; i++)
        if (p[i] < 0 || p[i] >= end || (i && p[i] <= p[i - 1])) return false;
    return true;
}

static inline const char *copy_fault(const step *st, const step_limits *l)
{
    for (int32_t i = 0; i < st->n_copy; i++) {
        const page_copy *a = &st->copies[i];
        if (a->group < 0 || (uint32_t)a->group >= l->n_group || a->from < 0 || a->to < 0 || a->from == a->to ||
            a->from >= l->n_page[a->group] || a->to >= l->n_page[a->group])
            return "copy";
        for (int32_t k = 0; k < i; k++) {
            const page_copy *b = &st->copies[k];
            if (a->group == b->group && (a->to == b->to || a->to == b->from || a->from == b->to))
                return "chained copies";
        }
    }
    return NULL;
}

static inline const char *step_fault(const step *st, const step_limits *l, const program *p)
{
    const int32_t t = st->n[AXIS_TOK], enc = st->n[AXIS_ENC], *tok = st->tok.seq_row, *e = st->enc.seq_row;
    const char *fault = copy_fault(st, l);
    if (st->n_seq < 1 || st->n_seq > l->sequences) return "sequences";
    if (t < 0 || t > l->rows[AXIS_TOK] || enc < 0 || enc > l->rows[AXIS_ENC]) return "rows";
    if (st->n[AXIS_EXP] != t * l->n_used) return "expert rows";
    if (tok[0] || e[0] || tok[st->n_seq] != t || e[st->n_seq] != enc) return "row borders";
    if (st->n[AXIS_OUT] > l->rows[AXIS_OUT] || !ascending(st->out, st->n[AXIS_OUT], t)) return "wanted rows";
    if (st->n[AXIS_SEQ] > l->rows[AXIS_SEQ] || !ascending(st->pool, st->n[AXIS_SEQ], st->n_seq)) return "pooled";
    for (int32_t s = 0; s < st->n_seq && !fault; s++) fault = sequence_fault(st, l, p, s);
    return fault;
}
