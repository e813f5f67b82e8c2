/* fake_backend.c - see fake_backend.h: memory, calls, faults, what is sent of a step, the thread.
 *
 * Matrices: blocks of rows in column-major order; packed ones as codes and scales of each row (panel_strip), spans in
 * column-major order. Pages: token after token, of each all heads, of each its keys, then its values; codes as 16 bits
 * each, then scales and bases. */
#include "fake_state.h"

#include "base/mem.h"
#include "base/rng.h"
#include "core/act_move.h"
#include "core/weight_fill.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>

static fake *fake_of(dev *d) { return (fake *)(void *)d; }
static fake_weights *weights_of(weight_set *w) { return (fake_weights *)(void *)w; }
static const fake_weights *weights_at(const weight_set *w) { return (const fake_weights *)(const void *)w; }

/* ---- memory that is closed, faults, counts */

/* Opens or closes a mapping. */
static void memory_protect(const mapping *m, int how)
{
    int rc = mprotect(m->at, m->bytes, how);
    CHECK(rc == 0, "mprotect");
}

static void memory_open(const fake *d, bool open)
{
    memory_protect(&d->memory, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

/* Lets a device at work read weights. */
static void weights_read(fake_weights *w, bool begins)
{
    pthread_mutex_lock(&w->lock);
    w->readers += begins ? 1 : -1;
    if (w->readers == begins) memory_protect(&w->memory, begins ? PROT_READ : PROT_NONE);
    pthread_mutex_unlock(&w->lock);
}

static bool memory_map(mapping *m, uint64_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return false;
    madvise(at, bytes, MADV_HUGEPAGE); /* else opening and closing it is half of the time */
    *m = (mapping){.at = at, .bytes = bytes};
    return true;
}

/* NULL: what weights and devices have taken leaves too little. */
static void *memory_take(fake_weights *w, mapping *m, uint64_t count, uint64_t size)
{
    const uint64_t bytes = (count * size + ALIGN - 1) / ALIGN * ALIGN, at = m->used;
    CHECK(size == 0 || count * size / size == count, "a size overflows");
    if (atomic_fetch_add(&w->taken, bytes) + bytes > w->o.memory - ALIGN) {
        atomic_fetch_sub(&w->taken, bytes);
        return NULL;
    }
    m->used += bytes;
    return m->at + at;
}

static void *take(fake *d, uint64_t count, uint64_t size) { return memory_take(d->w, &d->memory, count, size); }

static int out_of_memory(err *e) { return err_set(e, ERR_MEMORY, "the fake device has no memory left"); }

static void count(atomic_ullong *what, uint64_t n)
{
    if (what) atomic_fetch_add(what, n);
}
#define COUNT(w, member, n) count((w)->o.log ? &(w)->o.log->member : NULL, n)

/* Counts a call; not 0: it has to fail. */
static int call(fake_weights *w, fake_call which, err *e)
{
    static const char *const names[] = {
#define X(name) #name,
        FAKE_CALLS(X)
#undef X
    };
    fake_log *log = w->o.log;
    if (log) {
        atomic_fetch_add(&log->calls[which], 1);
        bool now = atomic_fetch_add(&log->all, 1) + 1 == log->fail_at;
        if (now && !log->lost) return err_set(e, ERR_MEMORY, "the fake device is short of memory (%s)", names[which]);
        if (now) atomic_store(&w->lost, true);
    }
    return atomic_load(&w->lost) ? err_set(e, ERR_IO, "the fake device is lost (%s)", names[which]) : OK;
}

/* ---- weights */

static void fake_weights_close(weight_set *of)
{
    fake_weights *w = weights_of(of);
    if (!w) return;
    if (w->memory.at) munmap(w->memory.at, w->memory.bytes);
    CHECK(atomic_load(&w->taken) == w->memory.used, "weights are closed before their devices");
    pthread_mutex_destroy(&w->lock);
    mem_free(w->weights);
    mem_free(w->held);
    mem_free(w);
}

static int fake_weights_open(weight_set **out, const program *p, const bool *reads, const weight_options *o, err *e)
{
    fake_weights *w = mem_zero(1, sizeof *w);
    *out = NULL;
    if (!w) return err_set(e, ERR_MEMORY, "out of memory for weights");
    if (o->own) w->o = *(const fake_options *)o->own;
    if (!w->o.memory) w->o.memory = FAKE_MEMORY;
    w->p = p;
    pthread_mutex_init(&w->lock, NULL);
    w->weights = mem_zero(p->n_weight + 1, sizeof *w->weights);
    w->held = mem_zero(p->n_weight + 1, sizeof *w->held);
    const bool ok = memory_map(&w->memory, w->o.memory) && w->weights && w->held;
    for (uint32_t i = 0; i < p->n_weight && ok; i++) w->weights[i].wanted = reads[i];
    int rc = ok ? call(w, FAKE_weights_open, e) : err_set(e, ERR_MEMORY, "out of memory for weights");
    if (rc) fake_weights_close((weight_set *)(void *)w);
    else *out = (weight_set *)(void *)w;
    return rc;
}

static int matrix_make(fake_weights *set, uint32_t index, err *e)
{
    const weight *of = &set->p->weights[index];
    matrix *w = &set->weights[index];
    weight_fill f;
    *w = (matrix){.type = weight_held_type(of), .rows = of->rows, .cols = of->cols};
    w->row_bytes = dtype_row_bytes(w->type, (uint64_t)w->cols);
    w->block_bytes = dtype_info[w->type].bytes;
    int rc = weight_fill_plan(&f, of, w->type, of->packed, e);
    if (rc) return rc;
    if (of->packed) {
        int64_t each = panel_format_of(w->type)->span;
        const uint64_t strips = (uint64_t)((w->cols + each - 1) / each * w->rows);
        w->strips = memory_take(set, &set->memory, strips, sizeof *w->strips);
    } else {
        w->blocks = memory_take(set, &set->memory, w->row_bytes, (uint64_t)w->rows);
    }
    if (!w->strips && !w->blocks) return out_of_memory(e);
    f.out = mem_array((size_t)f.units, f.unit_bytes);
    rc = f.out ? weight_fill_run(&f, 1, 1, e) : err_set(e, ERR_MEMORY, "out of memory");
    if (!rc) matrix_take(w, f.out);
    mem_free(f.out);
    COUNT(set, weights, (uint64_t)f.units * f.unit_bytes);
    if (of->vector)
        set->held[index] = (held_weight){.data = w->blocks, .type = DTYPE_F32, .stride = 4, .rows = w->rows, .cols = 1};
    return rc;
}

static int fake_weights_read(weight_set *of, err *e)
{
    fake_weights *w = weights_of(of);
    int rc = call(w, FAKE_weights_read, e);
    memory_protect(&w->memory, PROT_READ | PROT_WRITE);
    for (uint32_t i = 0; i < w->p->n_weight && !rc; i++)
        if (w->weights[i].wanted) rc = matrix_make(w, i, e);
    memory_protect(&w->memory, PROT_NONE);
    return rc;
}

static uint64_t fake_weight_bytes(const weight_set *w) { return weights_at(w)->memory.used; }

static const char *fake_isa(const weight_set *w)
{
    (void)w;
    return "fake";
}

/* Tiles of one state may take as much as the pages. */
static uint64_t fake_budget(const weight_set *of)
{
    const fake_weights *w = weights_at(of);
    return (w->o.memory - atomic_load(&w->taken)) / 2;
}

/* ---- pages */

/* Memory for a row of the widest matrix or activation. */
static bool open_rows(fake *d)
{
    int64_t widest = ACT_NARROW;
    for (uint32_t i = 0; i < d->p->n_weight; i++)
        if (d->p->weights[i].cols > widest) widest = d->p->weights[i].cols;
    for (uint32_t i = 1; i < d->p->n_tensor; i++)
        if (d->p->tensors[i].block && tensor_count(&d->p->tensors[i]) > widest)
            widest = tensor_count(&d->p->tensors[i]);
    const uint64_t most = (uint64_t)act_padded(widest);
    d->row = take(d, most, sizeof *d->row);
    d->raw = take(d, most, sizeof *d->row);
    return d->row && d->raw;
}

static int open_cache(fake *d, err *e)
{
    const cache_options *o = &d->pages;
    uint64_t most = 0, widest = 0, weights = 0;
    int rc = OK;
    for (int g = 0; g < GROUP_MAX; g++) kv_place(d->kv, d->p, g, o->k_type, o->v_type, NULL);
    for (uint32_t i = 0; i < d->p->n_op && !rc; i++) {
        const op *p = &d->p->ops[i];
        cache *c = p->kind == OP_KV_PUT ? &d->states[p->state] : NULL;
        if (!c || c->at) continue;
        const state *s = &d->p->states[p->state];
        c->like = d->kv[p->state];
        c->k_bytes = record_bytes(o->k_type, s->k_dim, false);
        c->v_bytes = record_bytes(o->v_type, s->v_dim, true);
        c->token_bytes = (c->k_bytes + c->v_bytes) * (uint64_t)s->heads;
        c->at = take(d, (uint64_t)o->n_page[s->group], c->token_bytes * PAGE_TOKENS);
        const uint64_t tiles = (c->like.k_page + c->like.v_page) * (uint64_t)o->n_page[s->group];
        if (tiles > most) most = tiles;
        if (!c->at) rc = out_of_memory(e);
    }
    for (uint32_t i = 0; i < d->p->n_op && !rc; i++) {
        const op *p = &d->p->ops[i];
        if (!op_is(p, OPF_SLOT)) continue;
        slots *s = &d->slots[p->state];
        const uint64_t floats = fake_slot_floats(d, p);
        uint64_t read = 0;
        for (int k = 0; k < 4; k++)
            if (d->p->tensors[p->in[k]].kind == TENSOR_WEIGHT) read += (uint64_t)tensor_count(&d->p->tensors[p->in[k]]);
        if (read > weights) weights = read;
        if (floats > widest) widest = floats;
        *s = (slots){take(d, floats, (uint64_t)o->n_slot * sizeof *s->at), o->n_slot};
        if (!s->at) rc = out_of_memory(e);
        if (s->n < 2) rc = err_set(e, ERR_USAGE, "a sequence of this model takes two slots, the device has %d", s->n);
        d->has_slots = true;
    }
    d->tiles = take(d, 1, most);
    d->slot_memory = take(d, widest * (uint64_t)o->n_slot, sizeof *d->slot_memory);
    d->slot_weights = take(d, weights, sizeof *d->slot_weights);
    d->scratch = take(d, run_scratch_floats(d->p), sizeof *d->scratch);
    return rc || (d->tiles && d->slot_memory && d->slot_weights && d->scratch) ? rc : out_of_memory(e);
}

static void check_page(const fake *d, int group, int32_t page)
{
    CHECK(group >= 0 && group < GROUP_MAX && page >= 0 && page < d->pages.n_page[group], "page %d of group %d", page,
          group);
}

static void move_slot(fake *d, int32_t slot, uint8_t *bytes, bool get)
{
    CHECK(slot >= 0 && slot < d->pages.n_slot, "slot %d", slot);
    for (uint32_t i = 0; i < d->p->n_op; i++) {
        const slots *s = &d->slots[d->p->ops[i].state];
        if (!op_is(&d->p->ops[i], OPF_SLOT)) continue;
        for (int64_t k = 0; k < d->p->states[d->p->ops[i].state].slot_floats; k++, bytes += sizeof *s->at)
            if (get) memcpy(bytes, &s->at[k * s->n + slot], sizeof *s->at);
            else memcpy(&s->at[k * s->n + slot], bytes, sizeof *s->at);
    }
}

static int move_page(dev *of, int group, int32_t page, uint8_t *bytes, bool get, err *e)
{
    fake *d = fake_of(of);
    int rc = call(d->w, get ? FAKE_page_get : FAKE_page_put, e);
    if (group != GROUP_MAX) check_page(d, group, page);
    memory_open(d, true);
    if (!rc && group == GROUP_MAX) move_slot(d, page, bytes, get);
    for (uint32_t i = 0; i < d->p->n_state && !rc; i++) {
        const cache *c = &d->states[i];
        if (!c->at || d->p->states[i].group != group) continue;
        page_move(c, page, bytes, get);
        bytes += c->like.k_page + c->like.v_page;
        COUNT(d->w, pages, c->like.k_page + c->like.v_page);
    }
    memory_open(d, false);
    return rc;
}

static int fake_page_get(dev *d, int group, int32_t page, uint8_t *to, err *e)
{
    return move_page(d, group, page, to, true, e);
}

static int fake_page_put(dev *d, int group, int32_t page, const uint8_t *from, err *e)
{
    return move_page(d, group, page, (uint8_t *)from, false, e);
}

/* ---- steps: what is sent of them */

static const int32_t *send(fake *d, int32_t *to, const int32_t *from, int64_t n)
{
    if (!from || !n) return to;
    memcpy(to, from, (size_t)n * sizeof *to);
    COUNT(d->w, steps, (uint64_t)n * sizeof *to);
    return to;
}

static void check_rows(const step *st, const step_rows *r, int32_t rows)
{
    for (int32_t i = 0; i < rows; i++) {
        CHECK(r->seq[i] >= 0 && r->seq[i] < st->n_seq, "sequence %d of row %d", r->seq[i], i);
        CHECK(r->pos[i] >= 0 && r->pos[i] < r->seq_len[r->seq[i]], "position %d of row %d", r->pos[i], i);
        CHECK(i == 0 || r->seq[i] != r->seq[i - 1] || r->pos[i] == r->pos[i - 1] + 1, "positions of row %d", i);
        CHECK(i >= r->seq_row[r->seq[i]] && i < r->seq_row[r->seq[i] + 1], "row %d is not its sequence's", i);
    }
}

static void check_step(const fake *d, const step *st)
{
    for (int i = AXIS_TOK; i < AXIS_COUNT; i++)
        CHECK(st->n[i] >= 0 && st->n[i] <= d->max_rows[i], "%d rows of axis %d, at most %d", st->n[i], i,
              d->max_rows[i]);
    CHECK(st->n_seq > 0 && st->n_seq <= d->most_seq, "%d sequences", st->n_seq);
    check_rows(st, &st->tok, st->n[AXIS_TOK]);
    check_rows(st, &st->enc, st->n[AXIS_ENC]);
    for (int32_t i = 0; i < st->n[AXIS_OUT]; i++)
        CHECK(st->out[i] < st->n[AXIS_TOK] && st->out[i] > (i ? st->out[i - 1] : -1), "wanted row %d", st->out[i]);
    for (int32_t i = 0; i < st->n[AXIS_SEQ]; i++)
        CHECK(st->pool[i] < st->n_seq && st->pool[i] > (i ? st->pool[i - 1] : -1), "sequence %d", st->pool[i]);
    for (int32_t i = 0; i < st->n_seq && d->has_slots; i++) {
        const int32_t rows = st->tok.seq_row[i + 1] - st->tok.seq_row[i], apart = step_apart(st, i);
        CHECK(st->slot_write[i] >= 0 && st->slot_write[i] < d->pages.n_slot, "slot %d", st->slot_write[i]);
        CHECK(apart >= 0 && apart <= d->pages.slot_rows && apart <= rows + step_taken(st, i), "%d rows apart", apart);
        if (st->tok.seq_len[i] == rows) continue;
        CHECK(st->slot_read[i] >= 0 && st->slot_read[i] < d->pages.n_slot, "slot %d", st->slot_read[i]);
        CHECK(step_taken(st, i) >= 0 && step_taken(st, i) <= d->pages.slot_rows, "%d rows taken", step_taken(st, i));
        for (int32_t k = 0; k < st->n_seq; k++)
            CHECK(st->slot_read[i] != st->slot_write[k], "slot %d is read and written", st->slot_read[i]);
    }
    for (int32_t i = 0; i < st->n_copy; i++) {
        check_page(d, st->copies[i].group, st->copies[i].from);
        check_page(d, st->copies[i].group, st->copies[i].to);
        for (int32_t k = 0; k < st->n_copy; k++)
            CHECK(st->copies[i].group != st->copies[k].group || st->copies[i].to != st->copies[k].from,
                  "page %d is copied and written", st->copies[i].to);
    }
}

static void rows_send(fake *d, const step *st, step_rows *to, bool enc)
{
    const step_rows *from = enc ? &st->enc : &st->tok;
    int32_t **at = d->at->rows + (enc ? 6 : 0), n = st->n[enc ? AXIS_ENC : AXIS_TOK];
    to->token = send(d, at[0], from->token, n);
    to->type = from->type ? send(d, at[1], from->type, n) : NULL;
    to->pos = send(d, at[2], from->pos, n);
    to->seq = send(d, at[3], from->seq, n);
    to->seq_len = send(d, at[4], from->seq_len, st->n_seq);
    to->seq_row = send(d, at[5], from->seq_row, st->n_seq + 1);
}

/* Of page tables, the entries that differ from what the device knows of that place in the step. */
static int tables_send(fake *d, const step *st, err *e)
{
    const int64_t cap = st->page_cap, each = GROUP_MAX * cap;
    if (cap > d->at->page_cap) {
        d->at->table = take(d, (uint64_t)(d->most_seq * each), sizeof *d->at->table);
        d->at->known = take(d, (uint64_t)(d->most_seq * each), sizeof *d->at->known);
        if (!d->at->table || !d->at->known) return out_of_memory(e);
        for (int64_t i = 0; i < d->most_seq * each; i++) d->at->known[i] = -1;
        d->at->page_cap = st->page_cap;
    }
    for (uint32_t g = 0; g < d->p->n_group; g++)
        for (int32_t i = 0; i < st->n_seq; i++) {
            const int32_t len = step_rows_of(st, d->p->group_axis[g])->seq_len[i];
            CHECK(len <= cap * PAGE_TOKENS, "%d positions of sequence %d", len, i);
            for (int32_t k = 0; k * PAGE_TOKENS < len; k++) {
                const int32_t page = step_page(st, (int)g, i, k);
                int32_t *known = &d->at->known[i * GROUP_MAX * d->at->page_cap + (int32_t)g * d->at->page_cap + k];
                if (page >= 0) check_page(d, (int)g, page);
                if (*known != page) COUNT(d->w, steps, 2 * sizeof *known); /* which, and what */
                *known = page;
                d->at->table[((int64_t)g * st->n_seq + i) * cap + k] = page;
            }
        }
    d->at->st.page = d->at->table;
    d->at->st.page_cap = st->page_cap;
    return OK;
}

static int ropes_send(fake *d, const step *st, err *e)
{
    for (uint32_t i = 0; i < d->p->n_op; i++) {
        if (d->p->ops[i].kind != OP_ROPE) continue;
        const int r = d->p->ops[i].u.rope.table;
        const rope_set *set = &d->p->ropes[r];
        for (int32_t k = 0; k < st->n_seq; k++) {
            const int32_t v = st->seq_rope[(int64_t)r * st->n_seq + k];
            CHECK(v >= 0 && v < VARIANTS, "variant %d of a rope table", v);
            rope_table *t = &d->ropes[r * VARIANTS + v];
            if (t->serial == rope_serial(set, v)) continue;
            const float *from = rope_cos(set, v);
            if (!t->at) t->at = take(d, (uint64_t)set->ctx * (uint64_t)set->params.dims, sizeof *t->at);
            if (!t->at) return out_of_memory(e);
            t->serial = rope_serial(set, v);
            t->floats = 2 * (uint64_t)(rope_sin(set, v) - from);
            memcpy(t->at, from, t->floats * sizeof *from);
            COUNT(d->w, weights, t->floats * sizeof *from);
        }
    }
    return OK;
}

/* Rows that stand for tokens: those that the step names, in the order of its rows. */
static void vectors_send(fake *d, const step *st)
{
    const int64_t dim = d->p->dim;
    int32_t n = 0;
    d->at->st.vec = d->at->vec;
    if (!d->at->vec) return; /* no embeddings in this segment */
    for (int32_t i = 0; i < st->n[AXIS_TOK]; i++) {
        if (st->tok.token[i] >= 0) continue;
        memcpy(d->at->vec + n * dim, st->vec + ~(int64_t)st->tok.token[i] * dim, (size_t)dim * sizeof *d->at->vec);
        COUNT(d->w, puts, (uint64_t)dim * sizeof *d->at->vec);
        d->at->rows[0][i] = ~n++;
    }
}

static int step_send(fake *d, const step *st, err *e)
{
    d->at->st = (step){.n_seq = st->n_seq, .n_copy = st->n_copy, .taps = st->taps, .n_tap = st->n_tap};
    memcpy(d->at->st.n, st->n, sizeof st->n);
    COUNT(d->w, steps, sizeof st->n + 3 * sizeof st->n_seq);
    rows_send(d, st, &d->at->st.tok, false);
    rows_send(d, st, &d->at->st.enc, true);
    d->at->st.out = send(d, d->at->out, st->out, st->n[AXIS_OUT]);
    d->at->st.pool = send(d, d->at->pool, st->pool, st->n[AXIS_SEQ]);
    d->at->st.seq_rope = send(d, d->at->rope_of, st->seq_rope, (int64_t)d->p->n_rope * st->n_seq);
    if (d->has_slots) {
        d->at->st.slot_read = send(d, d->at->rows[12], st->slot_read, st->n_seq);
        d->at->st.slot_write = send(d, d->at->rows[13], st->slot_write, st->n_seq);
        d->at->st.slot_taken = st->slot_taken ? send(d, d->at->rows[14], st->slot_taken, st->n_seq) : NULL;
        d->at->st.slot_apart = st->slot_apart ? send(d, d->at->rows[15], st->slot_apart, st->n_seq) : NULL;
    }
    d->at->st.copies = d->at->copies;
    if (st->n_copy) memcpy(d->at->copies, st->copies, (size_t)st->n_copy * sizeof *d->at->copies);
    COUNT(d->w, steps, (uint64_t)st->n_copy * sizeof *d->at->copies);
    vectors_send(d, st);
    int rc = tables_send(d, st, e);
    return rc ? rc : ropes_send(d, st, e);
}

/* ---- running */

static int fake_compile(dev *of, segment *s, err *e)
{
    fake *d = fake_of(of);
    const program *p = s->p;
    const int *most = d->max_rows;
    uint64_t copies = 0;
    int rc = call(d->w, FAKE_compile, e);
    CHECK(p == d->p, "a segment of another program");
    for (uint32_t i = 0; i < p->n_op && !rc; i++) {
        const int kind = p->ops[i].kind;
        if (d->w->o.lacks && kind == d->w->o.lacks)
            rc = err_set(e, ERR_USAGE, "the fake device has no kernel for %s", op_info[kind].name);
    }
    if (rc) return rc;
    placed *at = s->compiled = mem_zero(1, sizeof *at);
    if (at) at->seen = *p;
    if (at) at->seen.tensors = mem_array(p->n_tensor, sizeof *p->tensors);
    if (!at || !at->seen.tensors) return err_set(e, ERR_MEMORY, "out of memory for a segment");
    memcpy(at->seen.tensors, p->tensors, p->n_tensor * sizeof *p->tensors);
    at->part = *s;
    at->part.p = &at->seen;
    at->part.on = of;
    d->most_seq = most[AXIS_TOK] + most[AXIS_ENC];
    for (int g = 0; g < GROUP_MAX; g++) copies += (uint64_t)d->pages.n_page[g];
    bool ok = (at->act = take(d, 1, s->act_bytes + ALIGN));
    for (int i = 0; i < 16 && ok; i++) ok = (at->rows[i] = take(d, (uint64_t)d->most_seq + 1, sizeof *at->rows[i]));
    ok = ok && (at->rope_of = take(d, (uint64_t)d->most_seq * (p->n_rope + 1), sizeof *at->rope_of));
    ok = ok && (at->out = take(d, (uint64_t)most[AXIS_OUT], sizeof *at->out));
    ok = ok && (at->pool = take(d, (uint64_t)most[AXIS_SEQ], sizeof *at->pool));
    ok = ok && (at->copies = take(d, copies, sizeof *at->copies));
    for (uint32_t i = 0; i < p->n_op && ok; i++)
        if (p->ops[i].kind == OP_EMBED && p->ops[i].u.embed.by == EMBED_BY_TOKEN && !at->vec)
            ok = (at->vec = take(d, (uint64_t)most[AXIS_TOK], (uint64_t)p->dim * sizeof *at->vec));
    memory_open(d, true);
    for (uint32_t i = 1; i < p->n_tensor && ok; i++) {
        const uint64_t n = (uint64_t)tensor_count(&p->tensors[i]);
        float *to = NULL;
        if (p->tensors[i].kind != TENSOR_CONST) continue;
        ok = (to = take(d, n, sizeof *to));
        if (ok) memcpy(to, p->tensors[i].data, n * sizeof *to);
        at->seen.tensors[i].data = to;
        COUNT(d->w, weights, n * sizeof *to);
    }
    if (ok) memset(at->act + s->act_bytes, CANARY, ALIGN);
    memory_open(d, false);
    return ok ? OK : out_of_memory(e);
}

static void fake_discard(dev *of, segment *s)
{
    (void)of;
    placed *at = s->compiled;
    if (at) mem_free(at->seen.tensors);
    mem_free(at);
    s->compiled = NULL;
}

static void *work(void *of)
{
    fake *d = of;
    pthread_mutex_lock(&d->lock);
    for (;;) {
        while (!d->working && !d->stopping) pthread_cond_wait(&d->changed, &d->lock);
        if (!d->working) break;
        pthread_mutex_unlock(&d->lock);
        if (d->w->o.delay) {
            const struct timespec t = {0, (long)(rng_bits(d->w->o.seed, 0, d->turn++) % d->w->o.delay) * 1000};
            nanosleep(&t, NULL);
        }
        weights_read(d->w, true);
        memory_open(d, true);
        run_stretch(d, d->at->stretch);
        memory_open(d, false);
        weights_read(d->w, false);
        pthread_mutex_lock(&d->lock);
        d->working = false;
        pthread_cond_broadcast(&d->changed);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

/* Whether the segment was compiled for this device. */
static bool is_own(const fake *d, const segment *s)
{
    const placed *at = s->compiled;
    return at && at->part.on == (const dev *)(const void *)d;
}

static int fake_start(dev *of, const segment *s, uint32_t stretch, const step *st, err *e)
{
    fake *d = fake_of(of);
    int rc = call(d->w, FAKE_start, e);
    placed *at = s->compiled;
    CHECK(is_own(d, s) && !d->working, "start of a step while another one is at work");
    CHECK(stretch == 0 || (stretch == at->stretch + 1 && stretch < s->n_stretch && st == at->now), "stretch %u",
          stretch);
    if (rc) return rc;
    check_step(d, st);
    if (d->at != at && stretch) COUNT(d->w, returns, 1);
    d->at = at;
    if (stretch == 0) {
        memory_open(d, true);
        rc = step_send(d, st, e);
        memory_open(d, false);
    }
    if (rc) return rc;
    at->now = st;
    at->stretch = stretch;
    pthread_mutex_lock(&d->lock);
    d->working = true;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    return OK;
}

static int fake_wait(dev *of, err *e)
{
    fake *d = fake_of(of);
    pthread_mutex_lock(&d->lock);
    while (d->working) pthread_cond_wait(&d->changed, &d->lock);
    pthread_mutex_unlock(&d->lock);
    return call(d->w, FAKE_wait, e);
}

/* ---- rows in and out */

/* Whether t is the operand, or the result, of a COLL that ends the stretch before. */
static bool is_moved(const segment *s, ref t, bool result)
{
    const uint32_t i = s->ends[((const placed *)s->compiled)->stretch];
    return i < s->p->n_op && (result ? s->p->ops[i].out : s->p->ops[i].in[0]) == t;
}

static void check_rows_of(const fake *d, const tensor *a, int64_t row0, int64_t rows)
{
    CHECK(row0 >= 0 && rows > 0 && row0 + rows <= d->max_rows[a->axis], "rows %lld … %lld of %s", (long long)row0,
          (long long)(row0 + rows), a->name);
}

static void check_out(const fake *d, const segment *s, ref t)
{
    uint32_t i = 0;
    while (i < s->n_out && s->out[i] != t) i++;
    CHECK(is_own(d, s) && !d->working && (i < s->n_out || is_moved(s, t, false)), "%s is no output",
          s->p->tensors[t].name);
}

/* Codes: blocks as they are, all rows of the step. */
static void check_codes(const placed *at, const tensor *a, int64_t row0, int64_t rows, int64_t col0, int64_t cols)
{
    CHECK(row0 == 0 && rows == at->st.n[a->axis], "codes of some rows of %s", a->name);
    CHECK(col0 % a->block == 0 && (cols % a->block == 0 || col0 + cols == tensor_count(a)), "parts of blocks of %s",
          a->name);
}

static int fake_act_put(dev *of, const segment *s, ref t, int64_t col0, int64_t cols, int64_t rows, const void *from,
                        err *e)
{
    fake *d = fake_of(of);
    const tensor *a = &d->p->tensors[t];
    placed *at = s->compiled;
    uint32_t i = 0;
    int rc = call(d->w, FAKE_act_put, e);
    while (i < s->n_in && s->in[i].t != t) i++;
    CHECK(is_own(d, s) && !d->working && (i < s->n_in || is_moved(s, t, true)), "%s is no input", a->name);
    CHECK(col0 >= 0 && cols > 0 && col0 + cols <= tensor_count(a), "columns of %s", a->name);
    if (a->block) check_codes(at, a, 0, rows, col0, cols);
    check_rows_of(d, a, 0, rows);
    if (rc) return rc;
    memory_open(d, true);
    act_move_in(d->p, at->act, t, col0, cols, rows, from);
    memory_open(d, false);
    COUNT(d->w, puts, (uint64_t)rows * act_move_bytes(a, cols));
    return OK;
}

static int fake_act_get(dev *of, const segment *s, ref t, int64_t row0, int64_t rows, void *to, err *e)
{
    fake *d = fake_of(of);
    const tensor *a = &d->p->tensors[t];
    const placed *at = s->compiled;
    int rc = call(d->w, FAKE_act_get, e);
    check_out(d, s, t);
    if (a->block) check_codes(at, a, row0, rows, 0, tensor_count(a));
    check_rows_of(d, a, row0, rows);
    if (rc) return rc;
    memory_open(d, true);
    act_move_out(d->p, at->act, t, row0, rows, to);
    memory_open(d, false);
    COUNT(d->w, gets, (uint64_t)rows * act_move_bytes(a, tensor_count(a)));
    return OK;
}

static int fake_pick(dev *of, const segment *s, ref t, int64_t row0, int64_t rows, int32_t k, best_logit *to, err *e)
{
    fake *d = fake_of(of);
    int rc = call(d->w, FAKE_pick, e);
    const int64_t n = tensor_count(&d->p->tensors[t]);
    const tensor *a = &d->p->tensors[t];
    check_out(d, s, t);
    check_rows_of(d, a, row0, rows);
    if (rc) return rc;
    memory_open(d, true);
    for (int64_t i = 0; i < rows; i++) {
        const float *row = (float *)(void *)(((placed *)s->compiled)->act + a->off) + (row0 + i) * n;
        logits_best_list(row, n, k, to + i * k);
    }
    memory_open(d, false);
    COUNT(d->w, gets, (uint64_t)rows * (uint64_t)k * sizeof *to);
    return OK;
}

/* ---- opening */

static bool fake_probe(int i, device_info *out)
{
    *out = (device_info){.name = "nobody's device", .free_bytes = FAKE_MEMORY};
    return i == 0;
}

static bool fake_takes_int8(dtype type) { return panel_format_of(type) != NULL; }

static void fake_close(dev *of)
{
    fake *d = fake_of(of);
    if (!d) return;
    if (d->thread) {
        pthread_mutex_lock(&d->lock);
        d->stopping = true;
        pthread_cond_broadcast(&d->changed);
        pthread_mutex_unlock(&d->lock);
        pthread_join(d->thread, NULL);
    }
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->changed);
    if (d->memory.at) munmap(d->memory.at, d->memory.bytes);
    atomic_fetch_sub(&d->w->taken, d->memory.used);
    mem_free(d->states);
    mem_free(d->slots);
    mem_free(d->ropes);
    mem_free(d->held);
    mem_free(d->kv);
    mem_free(d->slot_view);
    mem_free(d);
}

static int fake_open(dev **out, weight_set *of, const program *p, const int max_rows[AXIS_COUNT],
                     const cache_options *o, err *e)
{
    fake *d = mem_zero(1, sizeof *d);
    *out = NULL;
    if (!d) return err_set(e, ERR_MEMORY, "out of memory for a device");
    d->w = weights_of(of);
    d->p = p;
    d->pages = *o;
    memcpy(d->max_rows, max_rows, sizeof d->max_rows);
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
    d->states = mem_zero(p->n_state + 1, sizeof *d->states);
    d->slots = mem_zero(p->n_state + 1, sizeof *d->slots);
    d->ropes = mem_zero((size_t)p->n_rope + 1, VARIANTS * sizeof *d->ropes);
    d->held = mem_zero(p->n_weight + 1, sizeof *d->held);
    d->kv = mem_zero(p->n_state + 1, sizeof *d->kv);
    d->slot_view = mem_zero(p->n_state + 1, sizeof *d->slot_view);
    const bool ok = memory_map(&d->memory, d->w->o.memory) && d->states && d->slots && d->ropes && d->held && d->kv &&
                    d->slot_view;
    int rc = ok ? call(d->w, FAKE_open, e) : err_set(e, ERR_MEMORY, "out of memory for a device");
    if (!rc) memcpy(d->held, d->w->held, p->n_weight * sizeof *d->held);
    if (!rc && !open_rows(d)) rc = out_of_memory(e);
    if (!rc) rc = open_cache(d, e);
    if (!rc && pthread_create(&d->thread, NULL, work, d)) {
        d->thread = 0;
        rc = err_set(e, ERR_MEMORY, "no thread for a device");
    }
    if (rc) fake_close((dev *)(void *)d);
    else *out = (dev *)(void *)d;
    return rc;
}

static uint64_t fake_held_bytes(const dev *d) { return ((const fake *)(const void *)d)->memory.used; }

static const char *fake_fused(const segment *s, uint32_t i, uint32_t *n)
{
    (void)s, (void)i;
    *n = 1;
    return NULL;
}

const backend fake_backend = {
    .name = "fake",
    .chunk = 128,
    .chunk_most = 512,
    .chunk_rate = 0x1p38,
    .sequences = 16,
    .probe = fake_probe,
    .takes_int8 = fake_takes_int8,
    .weights_open = fake_weights_open,
    .weights_read = fake_weights_read,
    .weights_close = fake_weights_close,
    .weight_bytes = fake_weight_bytes,
    .isa = fake_isa,
    .budget = fake_budget,
    .open = fake_open,
    .close = fake_close,
    .compile = fake_compile,
    .discard = fake_discard,
    .act_put = fake_act_put,
    .act_get = fake_act_get,
    .start = fake_start,
    .wait = fake_wait,
    .pick = fake_pick,
    .page_get = fake_page_get,
    .page_put = fake_page_put,
    .fused = fake_fused,
    .held_bytes = fake_held_bytes,
};
