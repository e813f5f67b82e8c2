/* coll_devices.c - see coll_devices.h. */
#include "comm/coll_devices.h"

#include "base/clock.h"
#include "base/mem.h"
#include "comm/coll_list.h"
#include "comm/coll_reduce.h"
#include "core/place.h"

typedef struct device_rank {
    weight_set *weights; /* none: kernels and a context */
    segment seg;
} device_rank;

struct coll_devices {
    const backend *be;
    int ranks, max_rows[AXIS_COUNT];
    int64_t rows, cols;
    program *p;
    ref y;
    edge x;
    device_rank rank[LINK_RANKS_MAX];
};

bool coll_devices_can(const backend *be, const coll_kind *kind)
{
    return be && be->ways && be->ways->join && (kind == &coll_two_step || kind == &coll_one_shot);
}

static int build_program(coll_devices *d, err *e)
{
    tensor t = {.name = "x", .kind = TENSOR_ACT, .rank = 1, .axis = AXIS_TOK, .layer = -1, .dim = {d->cols}};
    d->p = program_new(e);
    if (!d->p) return e->code;
    d->p->dim = d->cols;
    d->x.t = program_tensor(d->p, &t, e);
    t.name = "y";
    d->y = d->x.t ? program_tensor(d->p, &t, e) : 0;
    const op sum = {.kind = OP_COLL, .in = {d->x.t}, .out = d->y, .u.coll = {COLL_REDUCE}, .state = -1, .layer = -1};
    return d->y ? program_op(d->p, &sum, e) : e->code;
}

static int open_rank(coll_devices *d, int r, int number, err *e)
{
    device_rank *k = &d->rank[r];
    const bool reads[1] = {false};
    const weight_options with = {.number = number, .sharers = 1};
    const cache_options none = {.k_type = DTYPE_F32, .v_type = DTYPE_F32};
    segment s = {.p = d->p, .be = d->be, .in = &d->x, .n_in = 1, .out = &d->y, .n_out = 1};
    int rc = arena_layout(&s, d->max_rows, e);
    if (!rc) rc = d->be->weights_open(&k->weights, d->p, reads, &with, e);
    if (!rc) rc = d->be->weights_read(k->weights, e);
    if (!rc) rc = d->be->open(&s.on, k->weights, d->p, d->max_rows, &none, e);
    k->seg = s;
    return rc ? rc : d->be->compile(s.on, &k->seg, e);
}

int coll_devices_open(coll_devices **out, const backend *be, const int *number, int ranks, int64_t rows, int64_t cols,
                      err *e)
{
    coll_devices *d = *out = mem_zero(1, sizeof *d);
    if (!d) return err_memory(e, "devices");
    *d = (coll_devices){.be = be, .rows = rows, .cols = cols};
    for (int i = 0; i < AXIS_COUNT; i++) d->max_rows[i] = i == AXIS_TOK ? (int)rows : 1;
    int rc = build_program(d, e);
    for (int r = 0; r < ranks && !rc; r++) {
        d->ranks++;
        rc = open_rank(d, r, number[r], e);
    }
    if (!rc) return OK;
    coll_devices_close(d);
    *out = NULL;
    return rc;
}

void coll_devices_close(coll_devices *d)
{
    if (!d) return;
    for (int r = 0; r < d->ranks; r++) {
        const device_rank *k = &d->rank[r];
        if (k->seg.compiled) d->be->discard(k->seg.on, &d->rank[r].seg);
        if (k->seg.on) d->be->close(k->seg.on);
        if (k->weights) d->be->weights_close(k->weights);
    }
    program_free(d->p);
    mem_free(d);
}

/* ---- a test */

/* How a sum is made: all take `of`. */
typedef struct sum_way {
    int (*put)(void *of, int rank, const float *x, err *e);
    int (*once)(void *of, err *e);
    int (*get)(void *of, int rank, float *x, err *e);
} sum_way;

/* By joined devices. */
typedef struct joined_sum {
    const coll_devices *d;
    joined_group *j;
} joined_sum;

static int put_joined(void *of, int rank, const float *x, err *e)
{
    const coll_devices *d = ((joined_sum *)of)->d;
    const segment *s = &d->rank[rank].seg;
    return d->be->act_put(s->on, s, d->x.t, 0, d->cols, d->rows, x, e);
}

static int sum_joined(void *of, err *e)
{
    const joined_sum *s = of;
    const join_ways *ways = s->d->be->ways->join;
    const step st = {.n = {[AXIS_TOK] = (int32_t)s->d->rows}};
    bool odd;
    const int rc = ways->start(s->j, &st, e);
    return rc ? rc : ways->wait(s->j, &odd, e);
}

static int get_joined(void *of, int rank, float *x, err *e)
{
    const coll_devices *d = ((joined_sum *)of)->d;
    const segment *s = &d->rank[rank].seg;
    return d->be->act_get(s->on, s, d->y, 0, d->rows, x, e);
}

/* By a library: elements pass as its codec has them. */
typedef struct foreign_sum {
    const library_ways *ways;
    library_sum *s;
    wire_type type;
    int64_t n;
    uint8_t *codes;
} foreign_sum;

static int put_foreign(void *of, int rank, const float *x, err *e)
{
    const foreign_sum *f = of;
    wire_reference.encode(f->type, f->n, x, f->n, f->codes);
    return f->ways->put(f->s, rank, f->codes, e);
}

static int sum_foreign(void *of, err *e)
{
    const foreign_sum *f = of;
    return f->ways->add_up(f->s, e);
}

static int get_foreign(void *of, int rank, float *x, err *e)
{
    const foreign_sum *f = of;
    const int rc = f->ways->get(f->s, rank, f->codes, e);
    if (!rc) wire_reference.decode(f->type, f->n, f->codes, f->n, x);
    return rc;
}

/* ---- measuring */

static int repeat(const coll_test *t, const sum_way *way, void *of, double *seconds, err *e)
{
    int rc = OK;
    for (int64_t i = -2; i < t->reps && !rc; i++) { /* from the third time on nothing is prepared */
        const double start = clock_now();
        rc = way->once(of, e);
        seconds[i < 0 ? 0 : i] = clock_now() - start;
    }
    return rc;
}

/* Bytes that a rank would send, mean over ranks. */
static double payload_of(const coll_devices *d, const coll_test *t)
{
    const coll_job job = {.rows = d->rows, .cols = d->cols, .group = t->group};
    const double others = d->ranks - 1;
    double sum = others * (double)coll_chunk_bytes(&job, t->codec.partial, coll_whole(&job));
    if (t->kind == &coll_one_shot) return sum;
    for (int r = 0; r < d->ranks; r++)
        sum += others * (double)coll_chunk_bytes(&job, t->codec.sum, coll_chunk_of(&job, r, d->ranks));
    return sum / d->ranks;
}

static int judge_ranks(int ranks, const coll_test *t, const sum_way *way, void *of, float *x, coll_score *to, err *e)
{
    to->equal = true;
    for (int r = ranks - 1; r >= 0; r--) {
        const uint64_t other = to->hash;
        const int rc = way->get(of, r, x, e);
        if (rc) return rc;
        coll_judge(t, ranks, x, to);
        to->equal = to->equal && (r == ranks - 1 || to->hash == other);
    }
    return OK;
}

static int measure(int ranks, const coll_test *t, const sum_way *way, void *of, coll_score *to, err *e)
{
    const int64_t n = t->rows * t->cols;
    double *seconds = mem_zero((size_t)t->reps, sizeof *seconds);
    float *x = mem_map((size_t)n * sizeof *x);
    int rc = seconds && x ? OK : err_memory(e, "a sum");
    for (int r = 0; r < ranks && !rc; r++) {
        for (int64_t i = 0; i < n; i++) x[i] = coll_value(t, r, i);
        rc = way->put(of, r, x, e);
    }
    if (!rc) rc = repeat(t, way, of, seconds, e);
    if (!rc) coll_times(seconds, t->reps, to);
    if (!rc) rc = judge_ranks(ranks, t, way, of, x, to, e);
    mem_unmap(x, (size_t)n * sizeof *x);
    mem_free(seconds);
    return rc;
}

static int open_joined(const coll_devices *d, const coll_test *t, joined_group **j, err *e)
{
    static const join_coll sum = {.how = COLL_REDUCE};
    dev *on[LINK_RANKS_MAX];
    const segment *of[LINK_RANKS_MAX];
    for (int r = 0; r < d->ranks; r++) {
        on[r] = d->rank[r].seg.on;
        of[r] = &d->rank[r].seg;
    }
    const join_group g = {.ranks = d->ranks,
                          .on = on,
                          .of = of,
                          .colls = &sum,
                          .n_coll = 1,
                          .max_rows = d->max_rows,
                          .codec = t->codec,
                          .group = t->group,
                          .steps = t->kind == &coll_one_shot ? 1 : 2};
    const int rc = d->be->ways->join->open(j, &g, e);
    if (rc || *j) return rc;
    return err_set(e, ERR_USAGE, "these devices cannot read each other's memory");
}

int coll_devices_measure(coll_devices *d, const coll_test *t, coll_score *to, err *e)
{
    static const sum_way way = {put_joined, sum_joined, get_joined};
    joined_sum s = {.d = d};
    *to = (coll_score){.payload = payload_of(d, t)};
    int rc = open_joined(d, t, &s.j, e);
    if (!rc) rc = measure(d->ranks, t, &way, &s, to, e);
    if (s.j) d->be->ways->join->close(s.j);
    return rc;
}

const coll_kind coll_library = {.name = "nccl", .reduces = true};

int coll_devices_measure_library(coll_devices *d, const coll_test *t, coll_score *to, err *e)
{
    static const sum_way way = {put_foreign, sum_foreign, get_foreign};
    foreign_sum f = {.ways = d->be->ways->join->library, .type = t->codec.sum, .n = t->rows * t->cols};
    const size_t bytes = (size_t)wire_bytes(f.type, f.n, f.n);
    dev *on[LINK_RANKS_MAX];
    for (int r = 0; r < d->ranks; r++) on[r] = d->rank[r].seg.on;
    *to = (coll_score){.payload = 0};
    f.codes = mem_map(bytes);
    int rc = f.codes ? f.ways->open(&f.s, on, d->ranks, f.type, f.n, e) : err_memory(e, "a sum");
    if (!rc) rc = measure(d->ranks, t, &way, &f, to, e);
    f.ways->close(f.s);
    mem_unmap(f.codes, bytes);
    return rc;
}
