/* step_code.c - see step_code.h. */
#include "net/step_code.h"

#include "base/mem.h"

#include <string.h>

/* LISTS: how many of the best logits of a row are wanted follows its number, where processes of versions before set
 * BEST_ONLY in it: the best one alone. */
enum { WHOLE = 1, TYPES = 2, ENC_TYPES = 4, LISTS = 8, FLAGS = 15 };
static const uint32_t BEST_ONLY = 1u << 31;
enum { HEAD_BYTES = 4 + 1 + 2 + 4 + 2 + 4 + 4, COPY_BYTES = 9, TABLE_ROW = 4, RUN_BYTES = 4, LIKE_MAX = UINT16_MAX };

/* Page tables of one step, kept for the next. */
typedef struct tables {
    int32_t *page;  /* [group][sequence][cap] */
    int32_t *count; /* [group][sequence] entries that are meant */
    int32_t n_seq, cap;
} tables;

static int32_t pages_of(int32_t length) { return (length + PAGE_TOKENS - 1) / PAGE_TOKENS; }

/* ---- limits */

/* Token ids are below this: an encoder's table may be larger than the vocabulary that is generated. */
static int32_t largest_table(const program *p)
{
    int64_t most = p->vocab;
    for (uint32_t i = 0; i < p->n_op; i++) {
        const op *o = &p->ops[i];
        if (o->kind != OP_EMBED || o->u.embed.by != EMBED_BY_TOKEN) continue;
        if (p->tensors[o->in[0]].dim[0] > most) most = p->tensors[o->in[0]].dim[0];
    }
    return (int32_t)most;
}

int step_limits_of(step_limits *out, const program *p, const int max_rows[AXIS_COUNT], int sequences, int ctx,
                   const cache_options *cache, err *e)
{
    *out = (step_limits){.sequences = sequences,
                         .ctx = ctx,
                         .vocab = largest_table(p),
                         .n_slot = cache->n_slot,
                         .slot_rows = cache->slot_rows,
                         .n_used = p->n_used,
                         .dim = p->dim,
                         .n_group = p->n_group,
                         .n_rope = p->n_rope,
                         .ids = true};
    for (int a = 0; a < AXIS_COUNT; a++) out->rows[a] = max_rows[a];
    for (uint32_t g = 0; g < p->n_group; g++) {
        out->n_page[g] = cache->n_page[g];
        out->window[g] = p->group_window[g];
        out->axis[g] = p->group_axis[g];
    }
    if (sequences < 1 || sequences >= LIKE_MAX || ctx < 1 || pages_of(ctx) >= LIKE_MAX || p->vocab > INT32_MAX)
        return err_set(e, ERR_LIMIT, "%d sequences of %d tokens are too many for nodes", sequences, ctx);
    if (step_code_max(out) > UINT32_MAX)
        return err_set(e, ERR_LIMIT, "steps of %d rows are too large for nodes", max_rows[AXIS_TOK]);
    return OK;
}

uint64_t step_code_max(const step_limits *l)
{
    const uint64_t tok = (uint64_t)l->rows[AXIS_TOK], enc = (uint64_t)l->rows[AXIS_ENC], seqs = (uint64_t)l->sequences;
    const uint64_t table = TABLE_ROW + (uint64_t)pages_of(l->ctx) * (RUN_BYTES + 4);
    uint64_t n = HEAD_BYTES + seqs * (7 + (uint64_t)l->n_rope) * 4 + (tok + enc) * 8 + (uint64_t)l->rows[AXIS_OUT] * 6;
    n += seqs * 2 + (l->ids ? tok * (uint64_t)l->dim * 4 : 0) + l->n_group * seqs * table;
    for (uint32_t g = 0; g < l->n_group; g++) n += (uint64_t)l->n_page[g] * COPY_BYTES;
    return n;
}

static int32_t copies_max(const step_limits *l)
{
    int64_t n = 0;
    for (uint32_t g = 0; g < l->n_group; g++) n += l->n_page[g]; /* no page is the target of two */
    return n > INT32_MAX ? INT32_MAX : (int32_t)n;
}

static int tables_open(tables *t, const step_limits *l, err *e)
{
    const size_t rows = (size_t)l->sequences * (l->n_group ? l->n_group : 1);
    *t = (tables){.cap = pages_of(l->ctx)};
    t->page = mem_zero(rows, (size_t)t->cap * sizeof *t->page);
    t->count = mem_zero(rows, sizeof *t->count);
    return t->page && t->count ? OK : err_memory(e, "page tables");
}

static void tables_close(tables *t)
{
    mem_free(t->page);
    mem_free(t->count);
}

static int32_t *row_of(const tables *t, uint32_t g, int32_t seq)
{
    return t->page + ((int64_t)g * t->n_seq + seq) * t->cap;
}

static int32_t *count_of(const tables *t, uint32_t g, int32_t seq) { return t->count + (int64_t)g * t->n_seq + seq; }

static int32_t length_of(const step *st, const step_limits *l, uint32_t g, int32_t seq)
{
    return (l->axis[g] == AXIS_ENC ? &st->enc : &st->tok)->seq_len[seq];
}

/* ---- writing */

struct step_writer {
    step_limits limits;
    const program *p;
    buf out;
    uint32_t number;
    bool whole;
    tables last;
};

int step_writer_open(step_writer **out, const program *p, const step_limits *l, err *e)
{
    step_writer *w = *out = NULL;
    w = mem_zero(1, sizeof *w);
    if (!w) return err_memory(e, "steps");
    w->limits = *l;
    w->p = p;
    w->whole = true;
    w->out.cap = (size_t)step_code_max(l);
    w->out.p = mem_alloc(w->out.cap);
    int rc = w->out.p ? tables_open(&w->last, l, e) : err_memory(e, "steps");
    if (rc) step_writer_close(w);
    else *out = w;
    return rc;
}

void step_writer_close(step_writer *w)
{
    if (!w) return;
    buf_free(&w->out);
    tables_close(&w->last);
    mem_free(w);
}

void step_writer_forget(step_writer *w) { w->whole = true; }

static void put(step_writer *w, int64_t v, int bytes) { buf_uint(&w->out, (uint64_t)v, bytes); }

static bool has_any(const int32_t *p, int32_t n)
{
    while (n && p[n - 1] == 0) n--;
    return n > 0;
}

static void write_sequences(step_writer *w, const step *st)
{
    const step_limits *l = &w->limits;
    for (int32_t s = 0; s < st->n_seq; s++) {
        const int32_t rows = st->tok.seq_row[s + 1] - st->tok.seq_row[s];
        put(w, st->tok.seq_len[s] - rows, 4);
        put(w, rows, 4);
        put(w, st->tok.seq_len[s], 4);
        if (l->rows[AXIS_ENC]) {
            put(w, st->enc.seq_row[s + 1] - st->enc.seq_row[s], 4);
            put(w, st->enc.seq_len[s], 4);
        }
        if (l->n_slot) {
            put(w, st->slot_read[s], 4);
            put(w, st->slot_write[s], 4);
        }
        if (l->slot_rows) {
            put(w, step_taken(st, s), 1);
            put(w, step_apart(st, s), 1);
        }
        for (uint32_t r = 0; r < l->n_rope; r++)
            put(w, rope_length(&w->p->ropes[r], st->seq_rope[(int64_t)r * st->n_seq + s]), 4);
    }
}

static void write_rows(step_writer *w, const step_rows *rows, int32_t n, bool types)
{
    for (int32_t i = 0; i < n && w->limits.ids; i++) put(w, rows->token[i], 4);
    for (int32_t i = 0; i < n && types; i++) put(w, rows->type[i], 4);
}

/* The sequence of the step before whose row is nearest: its last page in common is the same, as pages at the end are
 * shared least. -1: none is. */
static int32_t find_like(const step_writer *w, uint32_t g, int32_t seq, const int32_t *row, int32_t n)
{
    for (int32_t k = 0; k < w->last.n_seq && !w->whole; k++) {
        const int32_t s = (seq + k) % w->last.n_seq, had = *count_of(&w->last, g, s), both = had < n ? had : n;
        if (both && row_of(&w->last, g, s)[both - 1] == row[both - 1]) return s;
    }
    return -1;
}

static void write_table_row(step_writer *w, uint32_t g, int32_t seq, const int32_t *row, int32_t n)
{
    const int32_t like = find_like(w, g, seq, row, n), had = like < 0 ? 0 : *count_of(&w->last, g, like);
    const int32_t *before = like < 0 ? NULL : row_of(&w->last, g, like);
    put(w, like + 1, 2);
    const size_t at = w->out.n;
    uint16_t runs = 0;
    put(w, 0, 2);
    for (int32_t i = 0, end; i < n; i = end) {
        for (; i < n && i < had && row[i] == before[i]; i++) {}
        for (end = i; end < n && !(end < had && row[end] == before[end]); end++) {}
        if (i == end) break;
        put(w, i, 2);
        put(w, end - i, 2);
        for (int32_t k = i; k < end; k++) put(w, row[k], 4);
        runs++;
    }
    if (!w->out.bad) w->out.p[at] = (uint8_t)runs, w->out.p[at + 1] = (uint8_t)(runs >> 8);
}

static void write_tables(step_writer *w, const step *st)
{
    const step_limits *l = &w->limits;
    for (uint32_t g = 0; g < l->n_group; g++)
        for (int32_t s = 0; s < st->n_seq; s++)
            write_table_row(w, g, s, st->page + ((int64_t)g * st->n_seq + s) * st->page_cap,
                            pages_of(length_of(st, l, g, s)));
    w->last.n_seq = st->n_seq;
    for (uint32_t g = 0; g < l->n_group; g++)
        for (int32_t s = 0; s < st->n_seq; s++) {
            const int32_t n = *count_of(&w->last, g, s) = pages_of(length_of(st, l, g, s));
            memcpy(row_of(&w->last, g, s), st->page + ((int64_t)g * st->n_seq + s) * st->page_cap,
                   (size_t)n * sizeof(int32_t));
        }
}

/* Rows of vec that ids name. */
static int32_t vec_rows(const step_limits *l, const step *st)
{
    int32_t n = 0;
    for (int32_t i = 0; i < st->n[AXIS_TOK] && l->ids; i++)
        if (st->tok.token[i] < 0 && ~st->tok.token[i] >= n) n = ~st->tok.token[i] + 1;
    return n;
}

static bool within(const step_limits *l, const step *st, int32_t n_vec)
{
    bool ok = st->n_seq > 0 && st->n_seq <= l->sequences && n_vec <= l->rows[AXIS_TOK] && st->n_copy <= copies_max(l);
    for (int a = 0; a < AXIS_COUNT; a++) ok = ok && (a == AXIS_EXP || st->n[a] <= l->rows[a]);
    for (int32_t s = 0; ok && s < st->n_seq; s++)
        ok = st->tok.seq_len[s] <= l->ctx && (!l->rows[AXIS_ENC] || st->enc.seq_len[s] <= l->ctx);
    return ok;
}

/* Whether more than the best logit of a row is wanted, and less than the row. */
static bool wants_lists(const step *st)
{
    int32_t i = 0;
    while (i < st->n[AXIS_OUT] && step_best(st, i) < 2) i++;
    return i < st->n[AXIS_OUT];
}

static void write_wanted(step_writer *w, const step *st, bool lists)
{
    for (int32_t i = 0; i < st->n[AXIS_OUT]; i++) {
        put(w, (uint32_t)st->out[i] | (!lists && step_best(st, i) ? BEST_ONLY : 0), 4);
        if (lists) put(w, (uint32_t)step_best(st, i), 2);
    }
}

int step_write(step_writer *w, const step *st, span *out, err *e)
{
    const step_limits *l = &w->limits;
    const int32_t enc = l->rows[AXIS_ENC] ? st->n[AXIS_ENC] : 0, n_vec = vec_rows(l, st);
    if (!within(l, st, n_vec)) return err_set(e, ERR_LIMIT, "a step beyond what the nodes were told");
    const bool types = l->ids && has_any(st->tok.type, st->n[AXIS_TOK]),
               enc_types = l->ids && has_any(st->enc.type, enc);
    const bool lists = wants_lists(st);
    w->out.n = 0;
    put(w, w->number++, 4);
    put(w, (w->whole ? WHOLE : 0) | (types ? TYPES : 0) | (enc_types ? ENC_TYPES : 0) | (lists ? LISTS : 0), 1);
    put(w, st->n_seq, 2);
    put(w, st->n[AXIS_OUT], 4);
    put(w, st->n[AXIS_SEQ], 2);
    put(w, n_vec, 4);
    put(w, st->n_copy, 4);
    write_sequences(w, st);
    write_rows(w, &st->tok, st->n[AXIS_TOK], types);
    write_rows(w, &st->enc, enc, enc_types);
    write_wanted(w, st, lists);
    for (int32_t i = 0; i < st->n[AXIS_SEQ]; i++) put(w, st->pool[i], 2);
    if (n_vec) buf_add(&w->out, st->vec, (size_t)n_vec * (size_t)l->dim * sizeof *st->vec);
    for (int32_t i = 0; i < st->n_copy; i++) {
        put(w, st->copies[i].group, 1);
        put(w, st->copies[i].from, 4);
        put(w, st->copies[i].to, 4);
    }
    write_tables(w, st);
    w->whole = false;
    *out = buf_span(&w->out);
    return w->out.bad ? err_memory(e, "a step") : OK;
}

/* ---- reading */

/* The memory of a step. X(array, elements, multiple) */
#define STEP_ARRAYS(X)                                                                                                 \
    X(token, tok, 1)                                                                                                   \
    X(type, tok, 1)                                                                                                    \
    X(pos, tok, 1)                                                                                                     \
    X(seq, tok, 1)                                                                                                     \
    X(seq_len, seqs, 1)                                                                                                \
    X(seq_row, seqs, 1)                                                                                                \
    X(enc_token, enc, 1)                                                                                               \
    X(enc_type, enc, 1)                                                                                                \
    X(enc_pos, enc, 1)                                                                                                 \
    X(enc_seq, enc, 1)                                                                                                 \
    X(enc_len, seqs, 1)                                                                                                \
    X(enc_row, seqs, 1)                                                                                                \
    X(out, outs, 1)                                                                                                    \
    X(pool, seqs, 1)                                                                                                   \
    X(seq_rope, seqs, n_rope)                                                                                          \
    X(slot_read, seqs, 1)                                                                                              \
    X(slot_write, seqs, 1)                                                                                             \
    X(slot_taken, seqs, 1)                                                                                             \
    X(slot_apart, seqs, 1)                                                                                             \
    X(page, seqs, n_group *cap)                                                                                        \
    X(vec, vecs, dim)                                                                                                  \
    X(best, outs, 1)                                                                                                   \
    X(copies, n_copies, 1)

typedef struct step_room {
    step st;
    int32_t *token, *type, *pos, *seq, *seq_len, *seq_row, *enc_token, *enc_type, *enc_pos, *enc_seq, *enc_len,
        *enc_row, *out, *pool, *seq_rope, *slot_read, *slot_write, *slot_taken, *slot_apart, *page, *best;
    float *vec;
    page_copy *copies;
    int32_t held; /* sequences whose tables of positions it holds */
} step_room;

struct step_reader {
    step_limits limits;
    program *p;
    step_room *rooms; /* [n] */
    int n;
    uint32_t number; /* of the next step */
    int turn;        /* the room that it goes to */
    bool begun;
    tables last, now;
    uint8_t *copied[GROUP_MAX]; /* [pages] it is in a copy of this step */
};

static bool room_open(step_room *m, const step_limits *l)
{
    const size_t tok = (size_t)l->rows[AXIS_TOK] + 1, enc = (size_t)l->rows[AXIS_ENC] + 1,
                 outs = (size_t)l->rows[AXIS_OUT] + 1, seqs = (size_t)l->sequences + 1, n_rope = l->n_rope + 1,
                 n_group = l->n_group ? l->n_group : 1, cap = (size_t)pages_of(l->ctx), dim = (size_t)l->dim,
                 n_copies = (size_t)copies_max(l) + 1, vecs = l->ids ? tok : 1;
    bool ok = true;
#define X(array, n, multiple) ok = (m->array = mem_zero(n, (multiple) * sizeof *m->array)) && ok;
    STEP_ARRAYS(X)
#undef X
    return ok;
}

static void room_close(step_room *m)
{
#define X(array, n, multiple) mem_free(m->array);
    STEP_ARRAYS(X)
#undef X
}

int step_reader_open(step_reader **out, program *p, const step_limits *l, int steps, err *e)
{
    step_reader *r = *out = NULL;
    r = mem_zero(1, sizeof *r);
    if (!r) return err_memory(e, "steps");
    r->limits = *l;
    r->p = p;
    bool ok = (r->rooms = mem_zero((size_t)steps, sizeof *r->rooms)) != NULL;
    for (; ok && r->n < steps; r->n++) ok = room_open(&r->rooms[r->n], l);
    for (uint32_t g = 0; ok && g < l->n_group; g++) ok = (r->copied[g] = mem_zero((size_t)l->n_page[g] + 1, 1)) != NULL;
    int rc = ok ? tables_open(&r->last, l, e) : err_memory(e, "steps");
    if (!rc) rc = tables_open(&r->now, l, e);
    if (rc) step_reader_close(r);
    else *out = r;
    return rc;
}

static void let_go(step_reader *r, step_room *m)
{
    for (uint32_t k = 0; k < r->limits.n_rope; k++)
        for (int32_t s = 0; s < m->held; s++) rope_release(&r->p->ropes[k], m->seq_rope[(int64_t)k * m->held + s]);
    m->held = 0;
}

void step_reader_close(step_reader *r)
{
    if (!r) return;
    for (int i = 0; i < r->n; i++) let_go(r, &r->rooms[i]), room_close(&r->rooms[i]);
    for (uint32_t g = 0; g < r->limits.n_group; g++) mem_free(r->copied[g]);
    tables_close(&r->last);
    tables_close(&r->now);
    mem_free(r->rooms);
    mem_free(r);
}

/* A number below `end`; else the cursor is bad. */
static int32_t number_below(cursor *c, int64_t end, int bytes)
{
    const uint64_t v = cursor_uint(c, bytes);
    if ((int64_t)v >= end) c->bad = true;
    return c->bad ? 0 : (int32_t)v;
}

/* Rows of a sequence, at most `most`, after those that are there; its length is at most ctx. */
static int32_t add_rows(cursor *c, int32_t most, int32_t seq, int32_t first, int32_t at, int32_t *row_pos,
                        int32_t *row_seq)
{
    const int32_t n = number_below(c, (int64_t)most - at + 1, 4);
    for (int32_t i = 0; i < n; i++) {
        row_pos[at + i] = first + i;
        row_seq[at + i] = seq;
    }
    return n;
}

static void read_sequence(step_reader *r, cursor *c, step_room *m, int32_t s)
{
    const step_limits *l = &r->limits;
    const int32_t at = m->seq_row[s], first = number_below(c, (int64_t)l->ctx + 1, 4);
    const int32_t n = add_rows(c, l->rows[AXIS_TOK], s, first, at, m->pos, m->seq);
    m->seq_row[s + 1] = at + n;
    m->seq_len[s] = number_below(c, (int64_t)l->ctx + 1, 4);
    if ((int64_t)first + n != m->seq_len[s]) c->bad = true;
    m->enc_row[s + 1] = m->enc_row[s];
    m->enc_len[s] = 0;
    if (l->rows[AXIS_ENC]) {
        const int32_t n_enc = add_rows(c, l->rows[AXIS_ENC], s, 0, m->enc_row[s], m->enc_pos, m->enc_seq);
        m->enc_row[s + 1] += n_enc;
        m->enc_len[s] = number_below(c, (int64_t)l->ctx + 1, 4);
        if (n_enc && n_enc != m->enc_len[s]) c->bad = true;
    }
    if (l->n_slot) {
        m->slot_read[s] = number_below(c, l->n_slot, 4);
        m->slot_write[s] = number_below(c, l->n_slot, 4);
        if (m->slot_read[s] == m->slot_write[s]) c->bad = true;
    }
    if (l->slot_rows) {
        m->slot_taken[s] = number_below(c, first ? l->slot_rows + 1 : 1, 1);
        m->slot_apart[s] = number_below(c, l->slot_rows + 1, 1);
        if (m->slot_apart[s] > n + m->slot_taken[s] || m->slot_taken[s] > first) c->bad = true;
    }
}

/* Finds the table of positions by the length that it is made for; rows must not lie beyond. */
static int admit_rope(step_reader *r, cursor *c, step_room *m, int32_t s, err *e)
{
    for (uint32_t k = 0; k < r->limits.n_rope && !c->bad; k++) {
        const int32_t length = number_below(c, (int64_t)INT32_MAX + 1, 4);
        if (length && (m->seq_len[s] > length || m->enc_len[s] > length)) c->bad = true;
        const int variant = c->bad ? OK : rope_admit(&r->p->ropes[k], length, e);
        if (variant < 0) return variant;
        m->seq_rope[(int64_t)k * m->st.n_seq + s] = variant;
    }
    return OK;
}

/* Sequences in order; tables of positions are held for those that were read whole. */
static int read_sequences(step_reader *r, cursor *c, step_room *m, err *e)
{
    int rc = OK;
    for (uint32_t i = 0; i < r->limits.n_rope * (uint32_t)m->st.n_seq; i++) m->seq_rope[i] = -1;
    m->seq_row[0] = m->enc_row[0] = 0;
    m->held = m->st.n_seq;
    for (int32_t s = 0; s < m->st.n_seq && !c->bad && !rc; s++) {
        read_sequence(r, c, m, s);
        if (!c->bad) rc = admit_rope(r, c, m, s, e);
    }
    m->st.n[AXIS_TOK] = m->seq_row[m->st.n_seq];
    m->st.n[AXIS_ENC] = m->enc_row[m->st.n_seq];
    m->st.n[AXIS_EXP] = m->st.n[AXIS_TOK] * r->limits.n_used;
    return rc;
}

static void read_ids(cursor *c, int32_t *to, int32_t n, int32_t vocab, int32_t n_vec)
{
    for (int32_t i = 0; i < n; i++) {
        to[i] = (int32_t)cursor_u32(c);
        if (to[i] >= vocab || (to[i] < 0 && ~to[i] >= n_vec)) c->bad = true;
    }
}

static void read_types(cursor *c, int32_t *to, int32_t n, bool there)
{
    for (int32_t i = 0; i < n; i++) to[i] = there ? number_below(c, INT32_MAX, 4) : 0;
}

/* Numbers below `end` that ascend. */
static void read_wanted(cursor *c, step_room *m, int32_t end, bool lists)
{
    for (int32_t i = 0; i < m->st.n[AXIS_OUT] && !c->bad; i++) {
        const uint32_t v = cursor_u32(c);
        m->out[i] = (int32_t)(lists ? v : v & ~BEST_ONLY);
        m->best[i] = lists ? number_below(c, BEST_MAX + 1, 2) : (v & BEST_ONLY) != 0;
        if (m->out[i] < 0 || m->out[i] >= end || (i && m->out[i] <= m->out[i - 1])) c->bad = true;
    }
}

static void read_pooled(cursor *c, step_room *m)
{
    for (int32_t i = 0; i < m->st.n[AXIS_SEQ] && !c->bad; i++) {
        m->pool[i] = (int32_t)cursor_u16(c);
        if (m->pool[i] >= m->st.n_seq || (i && m->pool[i] <= m->pool[i - 1])) c->bad = true;
    }
}

static void read_copies(step_reader *r, cursor *c, step_room *m, int32_t n)
{
    const step_limits *l = &r->limits;
    for (int32_t i = 0; i < n && !c->bad; i++) {
        page_copy k = {.group = number_below(c, l->n_group, 1)};
        if (c->bad) break;
        k.from = number_below(c, l->n_page[k.group], 4);
        k.to = number_below(c, l->n_page[k.group], 4);
        uint8_t *in = r->copied[k.group];
        if (k.from == k.to || in[k.from] == 2 || in[k.to]) c->bad = true;
        in[k.from] = 1;
        in[k.to] = 2;
        m->copies[i] = k;
    }
    for (int32_t i = 0; i < n; i++) /* what was marked, and at most what the message before had */
        for (uint32_t g = 0; g < l->n_group; g++) {
            if (m->copies[i].group != (int32_t)g) continue;
            r->copied[g][m->copies[i].from] = r->copied[g][m->copies[i].to] = 0;
        }
}

/* One row of a page table: changes of a row of the step before. Pages may be missing only where no row can see them. */
static void read_table_row(step_reader *r, cursor *c, const step_room *m, uint32_t g, int32_t seq)
{
    const step_limits *l = &r->limits;
    const int32_t n = pages_of(length_of(&m->st, l, g, seq)), like = (int32_t)cursor_u16(c) - 1;
    const uint32_t runs = cursor_u16(c);
    int32_t *to = row_of(&r->now, g, seq), had = 0;
    if (like >= r->last.n_seq) c->bad = true;
    if (c->bad) return;
    if (like >= 0) {
        had = *count_of(&r->last, g, like) < n ? *count_of(&r->last, g, like) : n;
        memcpy(to, row_of(&r->last, g, like), (size_t)had * sizeof *to);
    }
    for (int32_t i = had; i < n; i++) to[i] = -2; /* must be told */
    for (uint32_t k = 0; k < runs && !c->bad; k++) {
        const int32_t at = number_below(c, n, 2), count = number_below(c, (int64_t)n - at + 1, 2);
        for (int32_t i = at; i < at + count && !c->bad; i++) to[i] = (int32_t)cursor_u32(c);
    }
    const int32_t first = m->seq_len[seq] - (m->seq_row[seq + 1] - m->seq_row[seq]), window = l->window[g];
    const int64_t unseen = l->axis[g] == AXIS_TOK && window ? (int64_t)first - window + 1 : 0;
    for (int32_t i = 0; i < n && !c->bad; i++)
        if (to[i] >= l->n_page[g] || to[i] < -1 || (to[i] == -1 && (int64_t)(i + 1) * PAGE_TOKENS > unseen))
            c->bad = true;
    *count_of(&r->now, g, seq) = n;
}

static void read_tables(step_reader *r, cursor *c, step_room *m)
{
    const step_limits *l = &r->limits;
    r->now.n_seq = m->st.n_seq;
    for (uint32_t g = 0; g < l->n_group; g++)
        for (int32_t s = 0; s < m->st.n_seq && !c->bad; s++) {
            read_table_row(r, c, m, g, s);
            if (c->bad) return;
            memcpy(m->page + ((int64_t)g * m->st.n_seq + s) * r->now.cap, row_of(&r->now, g, s),
                   (size_t)*count_of(&r->now, g, s) * sizeof(int32_t));
        }
    const tables old = r->last;
    r->last = r->now;
    r->now = old;
}

static void bind_step(const step_reader *r, step_room *m)
{
    m->st.tok = (step_rows){m->token, m->type, m->pos, m->seq, m->seq_len, m->seq_row};
    m->st.enc = (step_rows){m->enc_token, m->enc_type, m->enc_pos, m->enc_seq, m->enc_len, m->enc_row};
    m->st.out = m->out;
    m->st.pool = m->pool;
    m->st.vec = m->vec;
    m->st.seq_rope = m->seq_rope;
    m->st.page = m->page;
    m->st.page_cap = r->last.cap;
    m->st.slot_read = m->slot_read;
    m->st.slot_write = m->slot_write;
    m->st.slot_taken = m->slot_taken;
    m->st.slot_apart = m->slot_apart;
    m->st.copies = m->copies;
    m->st.best = m->best;
}

int step_read(step_reader *r, span payload, const step **out, err *e)
{
    const step_limits *l = &r->limits;
    cursor c = cursor_of(payload);
    const uint32_t number = cursor_u32(&c);
    const uint8_t flags = cursor_u8(&c);
    if (c.bad || flags > FLAGS) return err_set(e, ERR_FORMAT, "a malformed step");
    if (!(flags & WHOLE) && (!r->begun || number != r->number))
        return err_set(e, ERR_FORMAT, "step %u where step %u is next", number, r->number);
    step_room *m = &r->rooms[r->turn];
    r->turn = (r->turn + 1) % r->n;
    let_go(r, m);
    m->st = (step){.n_seq = number_below(&c, (int64_t)l->sequences + 1, 2)};
    m->st.n[AXIS_OUT] = number_below(&c, (int64_t)l->rows[AXIS_OUT] + 1, 4);
    m->st.n[AXIS_SEQ] = number_below(
        &c, (int64_t)(m->st.n_seq < l->rows[AXIS_SEQ] ? m->st.n_seq : l->rows[AXIS_SEQ]) + 1, 2);
    const int32_t n_vec = number_below(&c, l->ids ? (int64_t)l->rows[AXIS_TOK] + 1 : 1, 4);
    m->st.n_copy = number_below(&c, (int64_t)copies_max(l) + 1, 4);
    if (flags & WHOLE) r->last.n_seq = 0;
    bind_step(r, m);
    int rc = c.bad || !m->st.n_seq ? err_set(e, ERR_FORMAT, "a malformed step") : read_sequences(r, &c, m, e);
    if (rc) return rc;
    if (!c.bad && l->ids) read_ids(&c, m->token, m->st.n[AXIS_TOK], l->vocab, n_vec);
    if (!c.bad) read_types(&c, m->type, m->st.n[AXIS_TOK], flags & TYPES);
    if (!c.bad && l->ids) read_ids(&c, m->enc_token, m->st.n[AXIS_ENC], l->vocab, 0);
    if (!c.bad) read_types(&c, m->enc_type, m->st.n[AXIS_ENC], flags & ENC_TYPES);
    read_wanted(&c, m, m->st.n[AXIS_TOK], flags & LISTS);
    read_pooled(&c, m);
    const span vec = cursor_take(&c, (uint64_t)n_vec * (uint64_t)l->dim * sizeof(float));
    if (!c.bad && vec.n) memcpy(m->vec, vec.p, vec.n);
    read_copies(r, &c, m, m->st.n_copy);
    if (!c.bad) read_tables(r, &c, m);
    if (c.bad || cursor_left(&c)) return err_set(e, ERR_FORMAT, "a malformed step, or one with foreign rows or pages");
    r->number = number + 1;
    r->begun = true;
    *out = &m->st;
    return OK;
}
