/* t_comm_collectives.c - the link between threads and the collectives over it: every byte arrives, once, whoever is
 * ahead; a rank that fails ends the others' waiting. */
#include "test.h"

#include "base/mem.h"
#include "base/rng.h"
#include "comm/coll_list.h"
#include "comm/coll_measure.h"
#include "comm/link_threads.h"
#include "cpu/cpu.h"

#include <math.h>
#include <pthread.h>

enum { RANKS = 8 };

/* ---- a thread for each rank */

typedef struct crew crew;
typedef struct member {
    crew *of;
    link_end *end;
    int rank, rc;
    err e;
} member;
struct crew {
    link_group *group;
    void *shared;
    int (*work)(member *m, err *e);
    member members[RANKS];
};

static void *member_main(void *arg)
{
    member *m = arg;
    m->rc = m->of->work(m, &m->e);
    if (m->rc) m->end->kind->give_up(m->end, m->rc, m->e.msg);
    return NULL;
}

static void crew_run(crew *c, int ranks, int (*work)(member *m, err *e), void *shared)
{
    pthread_t threads[RANKS];
    c->work = work;
    c->shared = shared;
    for (int r = 0; r < ranks; r++) {
        c->members[r] = (member){.of = c, .end = link_threads_end(c->group, r), .rank = r};
        assert_int_equal(pthread_create(&threads[r], NULL, member_main, &c->members[r]), 0);
    }
    for (int r = 0; r < ranks; r++) pthread_join(threads[r], NULL);
}

static void crew_open(crew *c, int ranks)
{
    err e = {0};
    *c = (crew){0};
    assert_ok(link_threads_open(&c->group, ranks, COLL_CHANNELS, &e), &e);
}

/* ---- gather */

enum { ROUNDS = 300, PART_MAX = 5000 };

/* A third of the parts are empty. */
static uint64_t part_size(int round, int rank)
{
    uint64_t x = rng_bits(1, (uint64_t)round, (uint64_t)rank);
    return x % 3 == 0 ? 0 : 1 + x / 3 % PART_MAX;
}
static uint8_t part_byte(int round, int rank, uint64_t i) { return (uint8_t)(7 * round + 31 * rank + (int)(i * i)); }

typedef struct arrivals {
    const uint64_t *bytes;
    int round, came[RANKS];
} arrivals;

static int check_part(void *self, int rank, const void *part, err *e)
{
    arrivals *a = self;
    const uint8_t *p = part;
    a->came[rank]++;
    for (uint64_t i = 0; i < a->bytes[rank]; i++)
        if (p[i] != part_byte(a->round, rank, i))
            return err_set(e, ERR_FORMAT, "round %d: byte %d of rank %d", a->round, (int)i, rank);
    return OK;
}

static void pause_for(uint64_t draw)
{
    if (draw % 8 == 0) usleep((useconds_t)(draw / 8 % 200));
}

static int gather_rounds(member *m, err *e)
{
    const int ranks = m->end->ranks;
    uint64_t bytes[RANKS] = {[0 ... RANKS - 1] = PART_MAX}, sent = 0;
    arrivals a = {.bytes = bytes};
    const coll_job job = {.kind = &coll_gather, .bytes = bytes, .put = check_part, .self = &a};
    const uint64_t room = coll_bytes(&job, m->rank, ranks);
    void *memory = mem_map(room);
    coll c;
    int rc = OK;
    coll_open(&c, m->end, 0, memory, room);
    for (int round = 0; round < ROUNDS && !rc; round++) {
        for (int r = 0; r < ranks; r++) bytes[r] = part_size(round, r);
        memset(a.came, 0, sizeof a.came);
        a.round = round;
        pause_for(rng_bits(2, (uint64_t)round, (uint64_t)m->rank));
        if ((rc = coll_enter(&c, e))) break;
        for (uint64_t i = 0; i < bytes[m->rank]; i++) ((uint8_t *)coll_own(&c))[i] = part_byte(round, m->rank, i);
        sent += bytes[m->rank] * (uint64_t)(ranks - 1);
        coll_begin(&c, &job);
        rc = coll_run(&c, e);
        for (int r = 0; r < ranks && !rc; r++)
            if (a.came[r] != (bytes[r] > 0))
                rc = err_set(e, ERR_FORMAT, "round %d: %d parts of rank %d", round, a.came[r], r);
    }
    if (!rc) rc = coll_leave(&c, e); /* others may still read the last part */
    if (!rc && m->end->posted != sent) rc = err_set(e, ERR_FORMAT, "%d bytes too many", (int)(m->end->posted - sent));
    mem_unmap(memory, room);
    return rc;
}

static void gather_brings_every_part_once(void **unused)
{
    (void)unused;
    for (int ranks = 1; ranks <= RANKS; ranks++) {
        crew c;
        crew_open(&c, ranks);
        crew_run(&c, ranks, gather_rounds, NULL);
        for (int r = 0; r < ranks; r++) assert_ok(c.members[r].rc, &c.members[r].e);
        link_threads_close(c.group);
    }
}

/* ---- reductions */

typedef struct sum_case {
    int64_t rows, cols, group;
} sum_case;
static const sum_case sum_cases[] = {{1, 4096, 128}, {3, 300, 128}, {16, 1000, 64}, {2, 96, 32},
                                     {5, 100, 100},  {7, 30, 128},  {0, 64, 32},    {2, 4096, 4096}};
enum { SUM_CASES = sizeof sum_cases / sizeof *sum_cases, SUM_MAX = 16 * 1000, CODED_MAX = 5 * SUM_MAX };

/* Partial sums; one of rank 0 cannot be coded in few bits. */
static float partial(int rank, int64_t i)
{
    if (rank == 0 && i == 777) return INFINITY;
    return (float)(rng_uniform(5, (uint64_t)rank, (uint64_t)i) - 0.5) * (i % 701 == 77 ? 40 : 1);
}

typedef struct sum_results {
    const wire_pair *codec;
    sum_case at;
    float want[SUM_MAX], x[RANKS][SUM_MAX];
    uint64_t posted[RANKS][3];
} sum_results;

/* The definition: of each row, in order of ranks. */
static void sum_define(sum_results *s, int ranks)
{
    static uint8_t coded[CODED_MAX];
    const int64_t cols = s->at.cols, group = s->at.group;
    for (int64_t row = 0; row < s->at.rows; row++) {
        float *sum = s->want + row * cols, x[4096];
        for (int r = 0; r < ranks; r++) {
            for (int64_t i = 0; i < cols; i++) x[i] = partial(r, row * cols + i);
            wire_reference.encode(s->codec->partial, group, x, cols, coded);
            wire_reference.decode(s->codec->partial, group, coded, cols, x);
            for (int64_t i = 0; i < cols; i++) sum[i] = r ? sum[i] + x[i] : x[i];
        }
        wire_reference.encode(s->codec->sum, group, sum, cols, coded);
        wire_reference.decode(s->codec->sum, group, coded, cols, sum);
    }
}

static const coll_kind *const reductions[] = {&coll_two_step, &coll_one_shot, &coll_ring};

/* Every other rank codes on vectors. The result of the ring stays in x. */
static int sum_ranks(member *m, err *e)
{
    sum_results *s = m->of->shared;
    float *x = s->x[m->rank];
    const int64_t n = s->at.rows * s->at.cols;
    const wire_ops *wire = m->rank % 2 ? cpu_kernels(cpu_features(), false)->wire : &wire_reference;
    const uint64_t room = 4 * CODED_MAX;
    void *memory = mem_map(room);
    coll c;
    int rc = OK;
    coll_open(&c, m->end, 0, memory, room);
    for (int k = 0; k < 3 && !rc; k++) {
        const uint64_t before = m->end->posted;
        const coll_job job = {.kind = reductions[k],
                              .x = x,
                              .rows = s->at.rows,
                              .cols = s->at.cols,
                              .partial = s->codec->partial,
                              .sum = s->codec->sum,
                              .group = s->at.group,
                              .wire = wire};
        if (coll_bytes(&job, m->rank, m->end->ranks) > room) rc = err_set(e, ERR_MEMORY, "%s", job.kind->name);
        for (int64_t i = 0; i < n; i++) x[i] = partial(m->rank, i);
        if (!rc) rc = coll_enter(&c, e);
        coll_begin(&c, &job);
        if (!rc) rc = coll_run(&c, e);
        s->posted[m->rank][k] = m->end->posted - before;
        if (!rc && k < 2 && n && memcmp(x, s->want, (size_t)n * sizeof *x))
            rc = err_set(e, ERR_FORMAT, "%s of %s: other bits", job.kind->name, s->codec->name);
    }
    if (!rc) rc = coll_leave(&c, e);
    mem_unmap(memory, room);
    return rc;
}

static void check_sums(const sum_results *s, int ranks)
{
    const int64_t n = s->at.rows * s->at.cols;
    const uint64_t others = (uint64_t)ranks - 1;
    const uint64_t m1 = (uint64_t)(s->at.rows * wire_bytes(s->codec->partial, s->at.group, s->at.cols));
    const uint64_t m2 = (uint64_t)(s->at.rows * wire_bytes(s->codec->sum, s->at.group, s->at.cols));
    const uint64_t want[3] = {others * (m1 + m2), others * (uint64_t)ranks * m1, others * (m1 + m2)};
    for (int k = 0; k < 3; k++) {
        uint64_t sum = 0;
        for (int r = 0; r < ranks; r++) sum += s->posted[r][k];
        if (sum != want[k])
            fail_msg("%s of %s, %d ranks: %llu bytes, not %llu", reductions[k]->name, s->codec->name, ranks,
                     (unsigned long long)sum, (unsigned long long)want[k]);
    }
    const double least = wire_infos[s->codec->partial].bits == 4 ? 8 : 0.6; /* of 40, at the outliers */
    for (int r = 0; r < ranks && n; r++) {
        assert_memory_equal(s->x[r], s->x[0], (size_t)n * sizeof *s->x[0]);
        for (int64_t i = 0; i < n && ranks > 1; i++)
            if (isfinite(s->want[i]) && isfinite(s->x[r][i]))
                assert_true(fabsf(s->x[r][i] - s->want[i]) <= least * ranks);
    }
}

static void reductions_are_their_definition(void **unused)
{
    (void)unused;
    static sum_results s;
    for (int ranks = 1; ranks <= RANKS; ranks++) {
        crew c;
        crew_open(&c, ranks);
        for (const wire_pair *w = wire_pairs; w->name; w++)
            for (int i = 0; i < SUM_CASES; i++) {
                s.codec = w;
                s.at = sum_cases[i];
                sum_define(&s, ranks);
                crew_run(&c, ranks, sum_ranks, &s);
                for (int r = 0; r < ranks; r++) assert_ok(c.members[r].rc, &c.members[r].e);
                check_sums(&s, ranks);
            }
        link_threads_close(c.group);
    }
}

/* One thread walks all ranks: no step waits inside. */
static void no_step_blocks(void **unused)
{
    (void)unused;
    enum { N = 4, ROWS = 3, COLS = 512, BYTES = 8 * ROWS * COLS * 4 };
    static float x[N][ROWS * COLS];
    static _Alignas(64) uint8_t memory[N][BYTES];
    for (int k = 0; k < 3; k++) {
        crew c;
        coll side[N];
        coll_job job[N];
        bool done[N] = {false};
        err e = {0};
        crew_open(&c, N);
        for (int r = 0; r < N; r++) {
            for (int i = 0; i < ROWS * COLS; i++) x[r][i] = (float)(r + i % 100);
            job[r] = (coll_job){.kind = reductions[k], .x = x[r], .rows = ROWS, .cols = COLS, .group = 128};
            job[r].wire = &wire_reference;
            coll_open(&side[r], link_threads_end(c.group, r), 0, memory[r], BYTES);
            coll_begin(&side[r], &job[r]);
        }
        int left = N, turns = 0;
        for (; left && turns < 100; turns++)
            for (int r = N - 1; r >= 0; r--) {
                if (done[r]) continue;
                const int rc = coll_advance(&side[r], &e);
                assert_true(rc >= 0);
                done[r] = rc == COLL_DONE;
                left -= done[r];
            }
        assert_int_equal(left, 0);
        for (int r = 0; r < N; r++)
            for (int i = 0; i < ROWS * COLS; i++) assert_true(x[r][i] == (float)(6 + 4 * (i % 100)));
        link_threads_close(c.group);
    }
}

/* What a job needs is enough for it with fewer rows. */
static void memory_grows_with_rows(void **unused)
{
    (void)unused;
    for (int ranks = 1; ranks <= RANKS; ranks++)
        for (int k = 0; k < 3; k++)
            for (const wire_pair *w = wire_pairs; w->name; w++)
                for (int r = 0; r < ranks; r++) {
                    coll_job job = {
                        .kind = reductions[k], .cols = 40, .partial = w->partial, .sum = w->sum, .group = 32};
                    for (uint64_t last = 0; job.rows < 40; job.rows++) {
                        const uint64_t bytes = coll_bytes(&job, r, ranks);
                        assert_true(bytes >= last);
                        last = bytes;
                    }
                }
}

/* ---- measuring */

typedef struct measured {
    coll_test test;
    void *memory[RANKS];
    coll_score score[RANKS];
} measured;

static int measure_rank(member *m, err *e)
{
    measured *s = m->of->shared;
    return coll_measure(m->end, 0, &s->test, s->memory[m->rank], &s->score[m->rank], e);
}

static coll_score measure_once(crew *c, const coll_kind *kind, const wire_pair *codec)
{
    enum { N = 3 };
    measured s = {.test = {kind, *codec, .rows = 5, .cols = 600, .group = 128, .reps = 3, .seed = 1}};
    s.test.wire = &wire_reference;
    for (int r = 0; r < N; r++) s.memory[r] = mem_map(coll_measure_bytes(&s.test, r, N));
    crew_run(c, N, measure_rank, &s);
    for (int r = 0; r < N; r++) {
        mem_unmap(s.memory[r], coll_measure_bytes(&s.test, r, N));
        assert_ok(c->members[r].rc, &c->members[r].e);
        assert_true(s.score[r].equal && s.score[r].hash == s.score[0].hash);
        assert_true(s.score[r].seconds_min > 0 && s.score[r].seconds_min <= s.score[r].seconds);
        assert_true(s.score[r].seconds <= s.score[r].seconds_max && s.score[r].seconds == s.score[0].seconds);
    }
    return s.score[0];
}

static void measuring_counts_bytes_and_errors(void **unused)
{
    (void)unused;
    static const double worst[] = {1e-6, 1e-3, 0.02, 0.15, 0.2, 0.02, 0.2};
    crew c;
    crew_open(&c, 3);
    for (int w = 0; wire_pairs[w].name; w++) {
        const wire_pair *codec = &wire_pairs[w];
        const double m1 = 5 * (double)wire_bytes(codec->partial, 128, 600);
        const double m2 = 5 * (double)wire_bytes(codec->sum, 128, 600);
        const coll_score ring = measure_once(&c, &coll_ring, codec), two = measure_once(&c, &coll_two_step, codec);
        const coll_score one = measure_once(&c, &coll_one_shot, codec), all = measure_once(&c, &coll_gather, codec);
        assert_true(fabs(two.payload - (m1 + m2) * 2 / 3) < 1e-6 * m1 && fabs(ring.payload - two.payload) < 1e-6 * m1);
        assert_true(fabs(one.payload - 2 * m1) < 1e-6 * m1 && fabs(all.payload - m2 * 2 / 3) < 1e-6 * m2);
        assert_true(two.hash == one.hash && two.error == one.error && two.error <= worst[w] && ring.error <= worst[w]);
        assert_true(all.error <= worst[w] && (codec->sum == WIRE_F32) == (all.error == 0));
    }
    link_threads_close(c.group);
}

/* ---- the link */

/* Rank 1 gives up; the others wait for it. */
static int wait_for_one(member *m, err *e)
{
    const link_kind *k = m->end->kind;
    const void *bytes = NULL;
    int rc = OK;
    if (m->rank == 1) usleep(2000);
    if (m->rank == 1) return err_set(e, ERR_LIMIT, "no more room");
    while (!rc && !bytes) {
        rc = k->take(m->end, 1, 0, 4, &bytes, e);
        if (!rc && !bytes) rc = k->wait(m->end, e);
    }
    return rc;
}

static void a_rank_that_gives_up_wakes_all(void **unused)
{
    (void)unused;
    crew c;
    crew_open(&c, 4);
    crew_run(&c, 4, wait_for_one, NULL);
    for (int r = 0; r < 4; r++) {
        assert_int_equal(c.members[r].rc, ERR_LIMIT);
        assert_string_equal(c.members[r].e.msg, r == 1 ? "no more room" : "rank 1 of 4: no more room");
    }
    link_threads_close(c.group);
}

static void sizes_have_to_agree(void **unused)
{
    (void)unused;
    crew c;
    err e = {0};
    const void *bytes;
    crew_open(&c, 2);
    link_end *a = link_threads_end(c.group, 0), *b = link_threads_end(c.group, 1);
    const link_kind *k = a->kind;
    assert_true(k->taken(a, 1, 3));
    assert_ok(k->take(b, 0, 3, 4, &bytes, &e), &e);
    assert_null(bytes);
    assert_ok(k->post(a, 1, 3, "four", 4, &e), &e);
    assert_false(k->taken(a, 1, 3));
    assert_int_equal(k->post(a, 1, 3, "four", 4, &e), ERR_BUSY);
    e = (err){0};
    assert_int_equal(k->take(b, 0, 3, 5, &bytes, &e), ERR_FORMAT);
    assert_string_equal(e.msg, "rank 0 sent 4 bytes where rank 1 expects 5");
    e = (err){0};
    assert_ok(k->take(b, 0, 3, 4, &bytes, &e), &e);
    assert_memory_equal(bytes, "four", 4);
    k->release(b, 0, 3);
    assert_true(k->taken(a, 1, 3));
    link_threads_close(c.group);
    link_threads_close(NULL);
    assert_int_equal(link_threads_open(&c.group, LINK_RANKS_MAX + 1, 1, &e), ERR_LIMIT);
    assert_null(c.group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gather_brings_every_part_once),
        cmocka_unit_test(reductions_are_their_definition),
        cmocka_unit_test(memory_grows_with_rows),
        cmocka_unit_test(no_step_blocks),
        cmocka_unit_test(measuring_counts_bytes_and_errors),
        cmocka_unit_test(a_rank_that_gives_up_wakes_all),
        cmocka_unit_test(sizes_have_to_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
