/* t_net_step.c - steps on the wire: a leader's life of sequences that come, grow, fork and go gives the same steps on
 * the other side; what was changed on the way is refused, or is still a step that a device can take. */
#include "base/mem.h"
#include "base/rng.h"
#include "step_rig.h"

#include "test.h"

/* ---- a leader: sequences with pages, in a step of its own memory */

typedef struct life {
    int32_t len, enc, length; /* tokens held; of the encoder; admitted for */
    int32_t page[3][STEP_CTX / PAGE_TOKENS + 1];
    int32_t slot;
} life;

typedef struct leader {
    uint64_t seed, draw;
    const step_limits *l;
    program *p;
    int n;
    life live[STEP_SEQS];
    int32_t next_page[3];
    step st;
    int32_t token[STEP_ROWS], type[STEP_ROWS], pos[STEP_ROWS], seq[STEP_ROWS], seq_len[STEP_SEQS],
        seq_row[STEP_SEQS + 1];
    int32_t etoken[STEP_ENC], etype[STEP_ENC], epos[STEP_ENC], eseq[STEP_ENC], elen[STEP_SEQS], erow[STEP_SEQS + 1];
    int32_t out[STEP_OUTS], pool[STEP_SEQS], rope[STEP_SEQS], slot_read[STEP_SEQS], slot_write[STEP_SEQS],
        slot_taken[STEP_SEQS], slot_apart[STEP_SEQS];
    int32_t page[3 * STEP_SEQS * (STEP_CTX / PAGE_TOKENS + 1)];
    float vec[STEP_ROWS * STEP_DIM];
    int32_t best[STEP_OUTS];
    page_copy copies[8];
} leader;

static int32_t draw(leader *d, int32_t below) { return (int32_t)(rng_bits(d->seed, 7, d->draw++) % (uint64_t)below); }

static int32_t new_page(leader *d, int g)
{
    d->next_page[g] = (d->next_page[g] + 1) % d->l->n_page[g];
    return d->next_page[g];
}

static void grow(leader *d, life *x, int32_t to)
{
    for (int g = 0; g < 2; g++)
        for (int32_t k = (x->len + PAGE_TOKENS - 1) / PAGE_TOKENS; k * PAGE_TOKENS < to; k++)
            x->page[g][k] = new_page(d, g);
    for (int32_t k = 0; (k + 1) * PAGE_TOKENS <= x->len - STEP_WINDOW + 1; k++) x->page[1][k] = -1;
    x->len = to;
}

static void live_on(leader *d)
{
    while (d->n < STEP_SEQS && draw(d, 3) == 0) { /* a new one, perhaps a fork of another */
        life *x = &d->live[d->n];
        if (d->n && draw(d, 2)) {
            *x = d->live[draw(d, d->n)];
        } else {
            *x = (life){.enc = draw(d, 2) ? 1 + draw(d, 40) : 0};
            for (int32_t k = 0; k * PAGE_TOKENS < x->enc; k++) x->page[2][k] = new_page(d, 2);
        }
        x->length = x->len + 1 + draw(d, STEP_CTX - x->len);
        if (d->n < 4) x->length = STEP_CTX - d->n;
        x->slot = d->n++;
    }
    for (int i = 0; i < d->n; i++)
        if (d->live[i].len >= d->live[i].length || draw(d, 40) == 0) d->live[i--] = d->live[--d->n];
    if (d->n > 1 && draw(d, 5) == 0) { /* another order */
        life x = d->live[0];
        d->live[0] = d->live[d->n - 1];
        d->live[d->n - 1] = x;
    }
}

static void add_sequence(leader *d, life *x, int32_t s)
{
    step *st = &d->st;
    const int32_t at = st->n[AXIS_TOK], left = STEP_ROWS - at - (d->n - s), room = x->length - x->len;
    int32_t n = draw(d, 3) ? 1 : 1 + draw(d, 60);
    if (n > left) n = left;
    if (n > room) n = room;
    const bool first = x->len == 0;
    const int32_t before = x->len;
    grow(d, x, x->len + n);
    for (int32_t i = 0; i < n; i++) {
        d->token[at + i] = draw(d, 10) ? draw(d, STEP_VOCAB) : ~draw(d, STEP_ROWS);
        d->type[at + i] = d->seed % 2 ? draw(d, 2) : 0;
        d->pos[at + i] = before + i;
        d->seq[at + i] = s;
        if (st->n[AXIS_OUT] < STEP_OUTS && draw(d, 3) == 0) {
            d->best[st->n[AXIS_OUT]] = draw(d, 2) ? draw(d, d->seed % 3 ? 2 : BEST_MAX + 1) : 0;
            d->out[st->n[AXIS_OUT]++] = at + i;
        }
    }
    st->n[AXIS_TOK] = d->seq_row[s + 1] = at + n;
    d->seq_len[s] = x->len;
    d->elen[s] = x->enc;
    const int32_t enc = first && st->n[AXIS_ENC] + x->enc <= STEP_ENC ? x->enc : 0;
    for (int32_t i = 0; i < enc; i++) {
        const int32_t k = st->n[AXIS_ENC] + i;
        d->etoken[k] = draw(d, STEP_VOCAB);
        d->etype[k] = 0;
        d->epos[k] = i;
        d->eseq[k] = s;
    }
    d->erow[s + 1] = st->n[AXIS_ENC] += enc;
    if (draw(d, 4) == 0) d->pool[st->n[AXIS_SEQ]++] = s;
    d->slot_read[s] = 2 * x->slot;
    d->slot_write[s] = 2 * x->slot + 1;
    d->slot_taken[s] = draw(d, before < STEP_APART ? before + 1 : STEP_APART + 1);
    d->slot_apart[s] = draw(d, n + d->slot_taken[s] < STEP_APART ? n + d->slot_taken[s] + 1 : STEP_APART + 1);
    d->rope[s] = rope_admit(&d->p->ropes[0], x->length, NULL);
    assert_true(d->rope[s] >= 0);
}

static const step *next_step(leader *d)
{
    const int32_t cap = STEP_CTX / PAGE_TOKENS + 1;
    do live_on(d);
    while (!d->n);
    step *st = &d->st;
    *st = (step){.n_seq = d->n,
                 .tok = {d->token, d->type, d->pos, d->seq, d->seq_len, d->seq_row},
                 .enc = {d->etoken, d->etype, d->epos, d->eseq, d->elen, d->erow},
                 .vec = d->vec,
                 .out = d->out,
                 .pool = d->pool,
                 .seq_rope = d->rope,
                 .page = d->page,
                 .page_cap = cap,
                 .slot_read = d->slot_read,
                 .slot_write = d->slot_write,
                 .slot_taken = d->slot_taken,
                 .slot_apart = d->slot_apart,
                 .copies = d->copies,
                 .best = d->best};
    for (int i = 0; i < STEP_ROWS * STEP_DIM; i++) d->vec[i] = (float)draw(d, 1000);
    for (int32_t s = 0; s < d->n; s++) add_sequence(d, &d->live[s], s);
    st->n[AXIS_EXP] = st->n[AXIS_TOK] * d->l->n_used;
    for (int g = 0; g < 3; g++)
        for (int32_t s = 0; s < d->n; s++) {
            int32_t *to = d->page + ((int64_t)g * d->n + s) * cap;
            memset(to, 0x7f, (size_t)cap * sizeof *to); /* beyond the length there is anything */
            const int32_t n = ((g == 2 ? d->live[s].enc : d->live[s].len) + PAGE_TOKENS - 1) / PAGE_TOKENS;
            memcpy(to, d->live[s].page[g], (size_t)n * sizeof *to);
        }
    for (int32_t k = draw(d, 3) ? 0 : draw(d, 4); st->n_copy < k; st->n_copy++)
        d->copies[st->n_copy] = (page_copy){st->n_copy % 3, 10, 20 + st->n_copy};
    return st;
}

static void leave_step(leader *d)
{
    for (int32_t s = 0; s < d->st.n_seq; s++) rope_release(&d->p->ropes[0], d->rope[s]);
}

static void same_ints(const char *what, const int32_t *a, const int32_t *b, int32_t n)
{
    if (n && memcmp(a, b, (size_t)n * sizeof *a) != 0) fail_msg("%s differ", what);
}

static void same_step(const step *a, const step *b, const step_limits *l, const program *p, const program *q)
{
    for (int i = 0; i < AXIS_COUNT; i++) assert_int_equal(a->n[i], b->n[i]);
    assert_int_equal(a->n_seq, b->n_seq);
    assert_int_equal(a->n_copy, b->n_copy);
    for (int e = 0; e < 2; e++) {
        const step_rows *x = e ? &a->enc : &a->tok, *y = e ? &b->enc : &b->tok;
        const int32_t n = a->n[e ? AXIS_ENC : AXIS_TOK];
        same_ints("ids", x->token, y->token, n);
        same_ints("types", x->type, y->type, n);
        same_ints("positions", x->pos, y->pos, n);
        same_ints("sequences", x->seq, y->seq, n);
        same_ints("lengths", x->seq_len, y->seq_len, a->n_seq);
        same_ints("borders", x->seq_row, y->seq_row, a->n_seq + 1);
    }
    same_ints("wanted rows", a->out, b->out, a->n[AXIS_OUT]);
    same_ints("pooled", a->pool, b->pool, a->n[AXIS_SEQ]);
    same_ints("slots", a->slot_read, b->slot_read, a->n_seq);
    same_ints("slots", a->slot_write, b->slot_write, a->n_seq);
    same_ints("rows taken", a->slot_taken, b->slot_taken, a->n_seq);
    same_ints("rows apart", a->slot_apart, b->slot_apart, a->n_seq);
    same_ints("copies", (const int32_t *)a->copies, (const int32_t *)b->copies, a->n_copy * 3);
    for (int32_t i = 0; i < a->n[AXIS_OUT]; i++) assert_int_equal(a->best[i], b->best[i]);
    for (int32_t i = 0; i < a->n[AXIS_TOK]; i++)
        if (a->tok.token[i] < 0)
            assert_memory_equal(a->vec + ~a->tok.token[i] * STEP_DIM, b->vec + ~a->tok.token[i] * STEP_DIM,
                                STEP_DIM * 4);
    for (int32_t s = 0; s < a->n_seq; s++) {
        const int va = a->seq_rope[s], vb = b->seq_rope[s];
        assert_int_equal(rope_length(&p->ropes[0], va), rope_length(&q->ropes[0], vb));
        assert_memory_equal(rope_cos(&p->ropes[0], va), rope_cos(&q->ropes[0], vb), (size_t)a->tok.seq_len[s] * 2 * 4);
        for (uint32_t g = 0; g < l->n_group; g++) {
            const int32_t len = l->axis[g] == AXIS_ENC ? a->enc.seq_len[s] : a->tok.seq_len[s];
            same_ints("pages", a->page + ((int64_t)g * a->n_seq + s) * a->page_cap,
                      b->page + ((int64_t)g * a->n_seq + s) * b->page_cap, (len + PAGE_TOKENS - 1) / PAGE_TOKENS);
        }
    }
    if (step_fault(b, l, q)) fail_msg("%s", step_fault(b, l, q));
}

static void steps_arrive_as_they_were(void **unused)
{
    (void)unused;
    enum { STEPS = 400, KEPT = 3 };
    for (uint64_t seed = 0; seed < 8; seed++) {
        static leader d;
        program *p = step_program(), *q = step_program();
        step_limits l = step_rig_limits(p);
        step_writer *w;
        step_reader *r;
        err e = {0};
        d = (leader){.seed = seed, .l = &l, .p = p};
        assert_ok(step_writer_open(&w, p, &l, &e), &e);
        assert_ok(step_reader_open(&r, q, &l, KEPT, &e), &e);
        for (int i = 0; i < STEPS; i++) {
            span bytes;
            const step *got;
            const step *st = next_step(&d);
            if (i % 50 == 49) step_writer_forget(w);
            assert_ok(step_write(w, st, &bytes, &e), &e);
            assert_true(bytes.n <= step_code_max(&l));
            if (i % 100 == 98) { /* lost: the next must be whole */
                assert_ok(step_read(r, bytes, &got, &e), &e);
                leave_step(&d);
                continue;
            }
            assert_ok(step_read(r, bytes, &got, &e), &e);
            same_step(st, got, &l, p, q);
            leave_step(&d);
        }
        step_writer_close(w);
        step_reader_close(r);
        for (uint32_t v = 1; v < q->ropes[0].n_variant; v++) { /* all are let go: their places can be used again */
            assert_int_equal(rope_admit(&q->ropes[0], 2000 + (int)v, &e), (int)v);
        }
        program_free(p);
        program_free(q);
    }
}

/* After a gap the reader takes only a whole step. */
static void a_gap_is_noticed(void **unused)
{
    (void)unused;
    static leader d;
    program *p = step_program();
    step_limits l = step_rig_limits(p);
    step_writer *w;
    step_reader *r;
    const step *got;
    span bytes;
    err e = {0};
    d = (leader){.seed = 3, .l = &l, .p = p};
    assert_ok(step_writer_open(&w, p, &l, &e), &e);
    assert_ok(step_reader_open(&r, p, &l, 2, &e), &e);
    assert_ok(step_write(w, next_step(&d), &bytes, &e), &e);
    assert_ok(step_read(r, bytes, &got, &e), &e);
    assert_ok(step_write(w, next_step(&d), &bytes, &e), &e); /* lost */
    assert_ok(step_write(w, next_step(&d), &bytes, &e), &e);
    assert_int_equal(step_read(r, bytes, &got, &e), ERR_FORMAT);
    assert_string_equal(e.msg, "step 2 where step 1 is next");
    e = (err){0};
    step_writer_forget(w);
    const step *st = next_step(&d);
    assert_ok(step_write(w, st, &bytes, &e), &e);
    assert_ok(step_read(r, bytes, &got, &e), &e);
    same_step(st, got, &l, p, p);
    step_writer_close(w);
    step_reader_close(r);
    program_free(p);
}

/* Decoding one token of each of 12 long sequences: few bytes. */
static void steady_steps_are_small(void **unused)
{
    (void)unused;
    static leader d;
    program *p = step_program();
    step_limits l = step_rig_limits(p);
    step_writer *w;
    span bytes;
    err e = {0};
    d = (leader){.seed = 1, .l = &l, .p = p};
    assert_ok(step_writer_open(&w, p, &l, &e), &e);
    next_step(&d);
    while (d.n < STEP_SEQS) next_step(&d);
    assert_ok(step_write(w, &d.st, &bytes, &e), &e);
    for (int32_t s = 0; s < d.n; s++) { /* the same step once more is a steady one */
        assert_true(d.seq_row[s + 1] > d.seq_row[s]);
    }
    const size_t first = bytes.n;
    assert_ok(step_write(w, &d.st, &bytes, &e), &e);
    const size_t rows = (size_t)d.st.n[AXIS_TOK] * 8 + (size_t)d.st.n[AXIS_OUT] * 4;
    int32_t vec = 0;
    for (int32_t i = 0; i < d.st.n[AXIS_TOK]; i++)
        if (d.token[i] < 0 && ~d.token[i] >= vec) vec = ~d.token[i] + 1;
    assert_true(bytes.n < first);
    assert_true(bytes.n <= 64 + rows + (size_t)d.n * (8 * 4 + 3 * 4 + 2) + (size_t)vec * STEP_DIM * 4 + 9 * 8);
    step_writer_close(w);
    program_free(p);
}

/* A byte changed, cut off or added: an error, or another step in which nothing is out of bounds. */
static void changed_steps_harm_nothing(void **unused)
{
    (void)unused;
    static leader d;
    program *p = step_program(), *q = step_program();
    step_limits l = step_rig_limits(p);
    step_writer *w;
    err e = {0};
    int taken = 0, refused = 0;
    d = (leader){.seed = 5, .l = &l, .p = p};
    assert_ok(step_writer_open(&w, p, &l, &e), &e);
    for (int i = 0; i < 60; i++) {
        span bytes;
        step_writer_forget(w);
        assert_ok(step_write(w, next_step(&d), &bytes, &e), &e);
        for (int turn = 0; turn < 60; turn++) {
            const step *got;
            step_reader *r;
            err no = {0};
            size_t n = bytes.n;
            uint8_t *copy = mem_alloc(n + 1);
            assert_non_null(copy);
            memcpy(copy, bytes.p, n);
            copy[n] = 0;
            if (turn == 0) n++;
            else if (turn < 10) n = (size_t)draw(&d, (int32_t)n);
            else copy[draw(&d, (int32_t)n)] ^= (uint8_t)(1 + draw(&d, 255));
            assert_ok(step_reader_open(&r, q, &l, 1, &e), &e);
            const int rc = step_read(r, span_of(copy, n), &got, &no);
            if (rc) refused++;
            else if (step_fault(got, &l, q)) fail_msg("%s", step_fault(got, &l, q));
            else taken++;
            if (turn < 10) assert_int_equal(rc, ERR_FORMAT);
            step_reader_close(r);
            mem_free(copy);
        }
        leave_step(&d);
    }
    assert_true(taken > 50 && refused > 50);
    step_writer_close(w);
    program_free(p);
    program_free(q);
}

/* Faults that a leader could have: each is refused. */
static void foreign_pages_are_refused(void **unused)
{
    (void)unused;
    program *p = step_program();
    step_limits l = step_rig_limits(p);
    for (int fault = 0; fault < 12; fault++) {
        static leader d;
        step_writer *w;
        step_reader *r;
        span bytes;
        const step *got;
        err e = {0};
        d = (leader){.seed = 9, .l = &l, .p = p};
        assert_ok(step_writer_open(&w, p, &l, &e), &e);
        assert_ok(step_reader_open(&r, p, &l, 1, &e), &e);
        next_step(&d);
        while (d.st.n_seq < 2 || d.seq_len[0] <= STEP_WINDOW + 2 * PAGE_TOKENS || d.st.n_copy < 2) next_step(&d);
        switch (fault) {
        case 1: d.page[0] = l.n_page[0]; break;
        case 2: d.page[0] = -2; break;
        case 3: d.page[0] = -1; break; /* a group without a window */
        case 4: d.page[(int64_t)d.n * d.st.page_cap + (d.seq_len[0] - 1) / PAGE_TOKENS] = -1; break;
        case 5: d.slot_write[1] = d.slot_read[1]; break;
        case 6: d.slot_write[0] = STEP_SLOTS; break;
        case 7: d.copies[1] = (page_copy){0, 20, 30}; break; /* a copy of a copy */
        case 8: d.copies[0].to = l.n_page[0]; break;
        case 9: d.slot_taken[1] = STEP_APART + 1; break;
        case 10: d.slot_apart[0] = STEP_APART + 1; break;
        case 11: d.slot_apart[1] = d.seq_row[2] - d.seq_row[1] + d.slot_taken[1] + 1; break;
        }
        assert_ok(step_write(w, &d.st, &bytes, &e), &e);
        assert_int_equal(step_read(r, bytes, &got, &e), fault ? ERR_FORMAT : OK);
        step_writer_close(w);
        step_reader_close(r);
    }
    program_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_arrive_as_they_were), cmocka_unit_test(a_gap_is_noticed),
        cmocka_unit_test(steady_steps_are_small),    cmocka_unit_test(changed_steps_harm_nothing),
        cmocka_unit_test(foreign_pages_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
