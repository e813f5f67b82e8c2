/* t_serve_slow_lane.c - long work is done in its order by one thread; at the end what is under way is done, the rest
 * not. */
#include "tests/test.h"

#include "serve/slow_lane.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

enum { WORKS = 5 };

typedef struct job {
    slow_work w; /* first */
    int number;
    bool ran, over;
} job;

static job jobs[WORKS];
static sem_t begun, may_go, finished;
static int order[WORKS], n_ran;

static void run(slow_work *w)
{
    job *j = (job *)w;
    order[n_ran++] = j->number;
    j->ran = true;
    sem_post(&begun);
    sem_wait(&may_go);
}

static void done(slow_work *w)
{
    ((job *)w)->over = true;
    sem_post(&finished);
}

static int setup(void **unused)
{
    (void)unused;
    memset(jobs, 0, sizeof jobs);
    n_ran = 0;
    sem_init(&begun, 0, 0);
    sem_init(&may_go, 0, 0);
    sem_init(&finished, 0, 0);
    for (int i = 0; i < WORKS; i++) jobs[i] = (job){.w = {.run = run, .done = done}, .number = i};
    return 0;
}

static void it_keeps_the_order(void **unused)
{
    (void)unused;
    err e = {0};
    slow_lane *l;
    assert_ok(slow_lane_open(&l, &e), &e);
    for (int i = 0; i < WORKS; i++) slow_lane_put(l, &jobs[i].w);
    sem_wait(&begun);
    assert_int_equal(slow_lane_waiting(l), WORKS - 1);
    for (int i = 0; i < WORKS; i++) sem_post(&may_go);
    for (int i = 0; i < WORKS; i++) sem_wait(&finished);
    for (int i = 0; i < WORKS; i++) assert_true(order[i] == i && jobs[i].over);
    assert_int_equal(slow_lane_waiting(l), 0);
    slow_lane_close(l);
}

/* More than the first: the lane may take another one before it hears of its end. */
static void *let_go(void *unused)
{
    for (int i = 0; i < WORKS; i++) sem_post(&may_go);
    return unused;
}

static void the_end_waits_for_what_is_under_way(void **unused)
{
    (void)unused;
    err e = {0};
    slow_lane *l;
    pthread_t other;
    assert_ok(slow_lane_open(&l, &e), &e);
    for (int i = 0; i < WORKS - 1; i++) slow_lane_put(l, &jobs[i].w);
    sem_wait(&begun);
    assert_int_equal(pthread_create(&other, NULL, let_go, NULL), 0);
    slow_lane_end(l);
    pthread_join(other, NULL);
    slow_lane_put(l, &jobs[WORKS - 1].w);
    for (int i = 0; i < WORKS; i++) assert_true(jobs[i].over);
    assert_true(jobs[0].ran && !jobs[WORKS - 1].ran);
    slow_lane_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(it_keeps_the_order, setup),
                                       cmocka_unit_test_setup(the_end_waits_for_what_is_under_way, setup)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
