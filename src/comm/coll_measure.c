/* coll_measure.c - see coll_measure.h. */
#include "comm/coll_measure.h"
#include "comm/coll_list.h"

#include "base/clock.h"
#include "base/fnv.h"
#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a rank tells all others; a gather of it is also how they wait for each other. */
typedef struct rank_note {
    double seconds;
    uint64_t posted, hash;
    double sockets;
} rank_note;

typedef struct measurement {
    const coll_test *t;
    link_end *link;
    int ranks;
    coll side;
    coll_job notes, job;
    uint64_t note_bytes[LINK_RANKS_MAX], part_bytes[LINK_RANKS_MAX];
    rank_note note[LINK_RANKS_MAX];
    float *x;
} measurement;

/* Nearly normal, of variance 1: the sum of four even ones. */
float coll_value(const coll_test *t, int rank, int64_t i)
{
    const uint64_t b = rng_bits(t->seed, (uint64_t)rank, (uint64_t)i);
    const int sum = (int)(b & 0xffff) + (int)(b >> 16 & 0xffff) + (int)(b >> 32 & 0xffff) + (int)(b >> 48);
    return (float)(sum - 131070) / 37837.0f;
}

static float exact(const coll_test *t, int ranks, int64_t i)
{
    float sum = coll_value(t, 0, i);
    for (int r = 1; r < ranks && t->kind->reduces; r++) sum += coll_value(t, r, i);
    return sum;
}

/* The first column of a rank's part, of a gather. */
static int64_t column_of(const measurement *m, int rank)
{
    const coll_test *t = m->t;
    const int64_t group = wire_group(t->codec.sum, t->group), groups = (t->cols + group - 1) / group;
    const int64_t at = groups * rank / m->ranks * group;
    return at < t->cols ? at : t->cols;
}

static int put_note(void *self, int rank, const void *part, err *e)
{
    (void)e;
    memcpy(&((measurement *)self)->note[rank], part, sizeof(rank_note));
    return OK;
}

static int put_part(void *self, int rank, const void *part, err *e)
{
    (void)e;
    measurement *m = self;
    const coll_test *t = m->t;
    const int64_t at = column_of(m, rank), n = column_of(m, rank + 1) - at;
    const uint8_t *from = part;
    for (int64_t row = 0; row < t->rows; row++, from += wire_bytes(t->codec.sum, t->group, n))
        t->wire->decode(t->codec.sum, t->group, from, n, m->x + row * t->cols + at);
    return OK;
}

static void encode_part(measurement *m, uint8_t *to)
{
    const coll_test *t = m->t;
    const int64_t at = column_of(m, m->link->rank), n = column_of(m, m->link->rank + 1) - at;
    for (int64_t row = 0; row < t->rows; row++, to += wire_bytes(t->codec.sum, t->group, n))
        t->wire->encode(t->codec.sum, t->group, m->x + row * t->cols + at, n, to);
}

static int exchange_notes(measurement *m, const rank_note *own, err *e)
{
    int rc = coll_enter(&m->side, e);
    if (rc) return rc;
    memcpy(coll_own(&m->side), own, sizeof *own);
    coll_begin(&m->side, &m->notes);
    return coll_run(&m->side, e);
}

/* Once; *seconds of the last rank to be done. */
static int repeat(measurement *m, rank_note *own, double *seconds, err *e)
{
    const coll_test *t = m->t;
    const int rank = m->link->rank;
    if (t->ends && t->ends(t->of)) return err_set(e, ERR_CANCELLED, "nobody waits for the measurement any more");
    for (int64_t i = 0; i < t->rows * t->cols; i++) m->x[i] = coll_value(t, t->kind->reduces ? rank : 0, i);
    int rc = exchange_notes(m, own, e); /* all begin */
    const uint64_t before = m->link->posted;
    const double start = clock_now();
    if (!rc) rc = coll_enter(&m->side, e);
    if (rc) return rc;
    if (!t->kind->reduces) encode_part(m, coll_own(&m->side));
    coll_begin(&m->side, &m->job);
    rc = coll_run(&m->side, e);
    own->seconds = clock_now() - start;
    own->posted = m->link->posted - before;
    if (!rc) rc = exchange_notes(m, own, e);
    *seconds = 0;
    for (int r = 0; r < m->ranks; r++) *seconds = fmax(*seconds, m->note[r].seconds);
    return rc;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void coll_judge(const coll_test *t, int ranks, const float *x, coll_score *to)
{
    const int64_t n = t->rows * t->cols;
    double squares = 0, errors = 0;
    for (int64_t i = 0; i < n; i++) {
        const double want = exact(t, ranks, i), is = x[i] - want;
        squares += want * want;
        errors += is * is;
    }
    to->error = squares > 0 ? sqrt(errors / squares) : 0;
    to->hash = fnv_add(FNV_START, x, (size_t)n * sizeof *x);
}

void coll_times(double *seconds, int64_t n, coll_score *to)
{
    qsort(seconds, (size_t)n, sizeof *seconds, ascending);
    to->seconds = seconds[n / 2];
    to->seconds_min = seconds[0];
    to->seconds_max = seconds[n - 1];
}

static uint64_t sent(const measurement *m) { return m->t->sent ? m->t->sent(m->t->of) : 0; }

/* All repetitions. What notes put into sockets is measured by itself and taken off. */
static int repeat_all(measurement *m, rank_note *own, double *seconds, err *e)
{
    uint64_t first = 0, last = 0;
    int rc = OK;
    for (int64_t i = -2; i < m->t->reps && !rc; i++) { /* first both halves of the memory are touched */
        if (i == 0) first = sent(m);
        rc = repeat(m, own, &seconds[i < 0 ? 0 : i], e);
    }
    last = sent(m);
    for (int i = 0; i < 2 && !rc; i++) rc = exchange_notes(m, own, e);
    own->sockets = (double)(last - first) / (double)m->t->reps - (double)(sent(m) - last);
    return rc;
}

static int measure_rounds(measurement *m, double *seconds, coll_score *to, err *e)
{
    const int ranks = m->ranks;
    rank_note own = {0};
    int rc = repeat_all(m, &own, seconds, e);
    if (rc) return rc;
    coll_times(seconds, m->t->reps, to);
    coll_judge(m->t, ranks, m->x, to);
    own.hash = to->hash;
    if ((rc = exchange_notes(m, &own, e))) return rc;
    to->payload = to->sockets = 0;
    to->equal = true;
    for (int r = 0; r < ranks; r++) {
        to->payload += (double)m->note[r].posted / ranks;
        to->sockets += m->note[r].sockets / ranks;
        to->equal = to->equal && m->note[r].hash == to->hash;
    }
    return coll_leave(&m->side, e);
}

static void prepare(measurement *m, const coll_test *t, int ranks)
{
    *m = (measurement){.t = t, .ranks = ranks};
    m->notes = (coll_job){.kind = &coll_gather, .bytes = m->note_bytes, .put = put_note, .self = m};
    m->job = (coll_job){.kind = t->kind,
                        .bytes = m->part_bytes,
                        .put = put_part,
                        .self = m,
                        .rows = t->rows,
                        .cols = t->cols,
                        .partial = t->codec.partial,
                        .sum = t->codec.sum,
                        .group = t->group,
                        .wire = t->wire};
    for (int r = 0; r < ranks; r++) {
        const int64_t cols = column_of(m, r + 1) - column_of(m, r);
        m->note_bytes[r] = sizeof(rank_note);
        m->part_bytes[r] = (uint64_t)(t->rows * wire_bytes(t->codec.sum, t->group, cols));
    }
}

uint64_t coll_measure_bytes(const coll_test *t, int rank, int ranks)
{
    measurement m;
    prepare(&m, t, ranks);
    const uint64_t notes = coll_bytes(&m.notes, rank, ranks), job = coll_bytes(&m.job, rank, ranks);
    return notes > job ? notes : job;
}

int coll_measure(link_end *l, int channel0, const coll_test *t, void *memory, coll_score *to, err *e)
{
    measurement m;
    prepare(&m, t, l->ranks);
    const uint64_t floats = (uint64_t)(t->rows * t->cols) * sizeof(float);
    double *seconds = mem_zero((size_t)t->reps, sizeof *seconds);
    m.link = l;
    m.job.x = m.x = mem_map(floats);
    coll_open(&m.side, l, channel0, memory, coll_measure_bytes(t, l->rank, l->ranks));
    int rc = seconds && m.x ? measure_rounds(&m, seconds, to, e)
                            : err_set(e, ERR_MEMORY, "out of memory to measure %s", t->kind->name);
    mem_unmap(m.x, floats);
    mem_free(seconds);
    return rc;
}
