/* t_plan_turns.c - two steps on one device (plan/turns.h): which stretch waits for which of the step before. */
#include "plan/turns.h"
#include "test.h"

#include <string.h>
#include <time.h>

enum { STRETCHES = 4, SLOW_MS = 20 };

/* State 0 in stretches 0 and 2, state 1 in stretch 1, none in the last; a COLL ends each of the others. */
static op ops[] = {{.state = 0}, {.state = -1}, {.state = 1}, {.state = -1},
                   {.state = 0}, {.state = -1}, {.state = -1}};
static uint32_t ends[STRETCHES] = {1, 3, 5, 7};
static program p = {.ops = ops, .n_op = 7, .n_state = 2};

typedef struct rig {
    plan l;
    plan_rank r;
    bool has; /* the younger lane has had the turn; under the lock */
    uint32_t stretch;
    step st;
    pthread_t thread;
} rig;

static void rig_open(rig *g)
{
    err e = {0};
    *g = (rig){.r = {.seg = {.p = &p, .n_stretch = STRETCHES, .ends = ends}, .n_lane = 2, .of = &g->l}};
    pthread_mutex_init(&g->l.lock, NULL);
    pthread_cond_init(&g->r.turn, NULL);
    for (int i = 0; i < 2; i++) g->r.lane[i] = (rank_lane){.of = &g->r, .next = (uint64_t)i};
    assert_ok(turns_open(&g->r, &e), &e);
}

static void rig_close(rig *g)
{
    turns_close(&g->r);
    pthread_cond_destroy(&g->r.turn);
    pthread_mutex_destroy(&g->l.lock);
}

static void *take_younger(void *of)
{
    rig *g = of;
    turn_take(&g->r.lane[1], g->stretch, &g->st);
    pthread_mutex_lock(&g->l.lock);
    g->has = true;
    pthread_mutex_unlock(&g->l.lock);
    turn_give(&g->r.lane[1], g->stretch + 1);
    return NULL;
}

static bool younger_waits(rig *g)
{
    const struct timespec t = {0, SLOW_MS * 1000000L};
    nanosleep(&t, NULL);
    pthread_mutex_lock(&g->l.lock);
    const bool waits = !g->has;
    pthread_mutex_unlock(&g->l.lock);
    return waits;
}

/* The younger step wants a stretch as the older one goes through its own: it gets it after so many, not before. */
static void expect(uint32_t stretch, int32_t n_copy, uint32_t after)
{
    rig g;
    rig_open(&g);
    g.stretch = stretch;
    g.st.n_copy = n_copy;
    assert_int_equal(pthread_create(&g.thread, NULL, take_younger, &g), 0);
    for (uint32_t i = 0; i < after; i++) {
        assert_true(younger_waits(&g));
        turn_take(&g.r.lane[0], i, &(step){0});
        turn_give(&g.r.lane[0], i + 1);
    }
    pthread_join(g.thread, NULL);
    assert_true(g.has);
    rig_close(&g);
}

static void after_the_same_stretch(void **unused)
{
    (void)unused;
    expect(1, 0, 2);
    expect(3, 0, 4);
}

static void after_all_that_touch_a_state(void **unused)
{
    (void)unused;
    expect(0, 0, 3);
    expect(2, 0, 3);
}

static void pages_are_copied_after_all(void **unused)
{
    (void)unused;
    expect(0, 1, STRETCHES);
    expect(1, 1, 2); /* they were copied before */
}

/* Rows are moved at any time but while another lane has the turn. */
static void one_at_a_time(void **unused)
{
    (void)unused;
    rig g;
    rig_open(&g);
    turn_take_for_rows(&g.r.lane[1]);
    turn_give(&g.r.lane[1], 0);
    turn_take(&g.r.lane[0], 0, &g.st);
    turn_give(&g.r.lane[0], 3);
    turn_take_for_rows(&g.r.lane[0]);
    assert_int_equal(pthread_create(&g.thread, NULL, take_younger, &g), 0);
    assert_true(younger_waits(&g));
    turn_give(&g.r.lane[0], 3);
    pthread_join(g.thread, NULL);
    rig_close(&g);
}

/* A step that was passed along without work holds nobody up. */
static void after_a_step_that_is_done(void **unused)
{
    (void)unused;
    rig g;
    rig_open(&g);
    g.r.lane[0].next = 2;
    turn_take(&g.r.lane[1], 3, &g.st);
    turn_give(&g.r.lane[1], STRETCHES);
    rig_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(after_the_same_stretch),
                                       cmocka_unit_test(after_all_that_touch_a_state),
                                       cmocka_unit_test(pages_are_copied_after_all), cmocka_unit_test(one_at_a_time),
                                       cmocka_unit_test(after_a_step_that_is_done)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
