/* t_base_pool.c - the compute pool: every worker runs, barriers order memory, many runs, more workers than cores, open
 * and close. */
#include "test.h"

#include "base/pool.h"

enum { ROUNDS = 200 };

typedef struct shared {
    pool *p;
    int cell[64];
    long sum;
    int bad;
} shared;

/* Each round every worker writes its cell (not atomic: the barrier must order it) and worker 0 adds all of them. */
static void rounds(void *arg, int worker, int workers)
{
    shared *s = arg;
    for (int i = 0; i < ROUNDS; i++) {
        s->cell[worker] = i + worker;
        pool_barrier(s->p, worker);
        if (worker == 0)
            for (int w = 0; w < workers; w++) {
                s->sum += s->cell[w];
                s->bad += s->cell[w] != i + w;
            }
        pool_barrier(s->p, worker);
    }
}

static void mark(void *arg, int worker, int workers)
{
    (void)workers;
    ((shared *)arg)->cell[worker]++;
}

static void barriers_order_memory(void **state)
{
    (void)state;
    static const int counts[] = {1, 2, 3, 16};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        shared s = {0};
        err e = {0};
        assert_ok(pool_open(&s.p, counts[i], &e), &e);
        assert_int_equal(pool_workers(s.p), counts[i]);
        pool_run(s.p, rounds, &s);
        pool_run(s.p, rounds, &s);
        long n = counts[i], per_round = n * (n - 1) / 2,
             want = 2 * (ROUNDS * per_round + n * (ROUNDS * (ROUNDS - 1) / 2));
        assert_int_equal(s.bad, 0);
        assert_int_equal(s.sum, want);
        pool_close(s.p);
    }
}

static void every_worker_runs_once_per_run(void **state)
{
    (void)state;
    shared s = {0};
    err e = {0};
    assert_ok(pool_open(&s.p, 5, &e), &e);
    for (int i = 0; i < 2000; i++) pool_run(s.p, mark, &s);
    for (int w = 0; w < 5; w++) assert_int_equal(s.cell[w], 2000);
    pool_close(s.p);
}

/* Workers fall asleep between runs and wake again. */
static void sleepers_wake(void **state)
{
    (void)state;
    shared s = {0};
    err e = {0};
    assert_ok(pool_open(&s.p, 3, &e), &e);
    for (int i = 0; i < 20; i++) {
        usleep(5000);
        pool_run(s.p, mark, &s);
    }
    for (int w = 0; w < 3; w++) assert_int_equal(s.cell[w], 20);
    pool_close(s.p);
}

static void opens_and_closes(void **state)
{
    (void)state;
    err e = {0};
    pool *p;
    for (int i = 0; i < 50; i++) {
        assert_ok(pool_open(&p, 1 + i % 4, &e), &e);
        pool_close(p);
    }
    pool_close(NULL);
    assert_int_equal(pool_open(&p, 0, &e), ERR_USAGE);
    assert_null(p);
    assert_true(pool_default_threads() >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(barriers_order_memory),
        cmocka_unit_test(every_worker_runs_once_per_run),
        cmocka_unit_test(sleepers_wake),
        cmocka_unit_test(opens_and_closes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
