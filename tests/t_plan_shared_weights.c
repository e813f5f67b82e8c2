/* t_plan_shared_weights.c - plans over one set of weights: each has pages and steps of its own, gives the bits that it
 * gives alone, and may be closed first; the weights are read and held once; a device that is lost is lost for both. */
#include "fake/fake_backend.h"
#include "plan/plan_memory.h"
#include "shared_rig.h"

static void texts_at_once(void **unused)
{
    (void)unused;
    static const char *const devices[] = {"cpu:1", "cpu:3",      "cpu:2;cpu:1", "cpu:2&cpu:1",
                                          "fake",  "fake;cpu:2", "fake&cpu:1"};
    const cpu_options all = {.share_all = true};
    const fake_options fake = {.delay = 50, .seed = 2};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        for (int k = 0; k < 2; k++) {
            const backend_use list[] = {{&cpu_backend, k ? &all : NULL}, {&fake_backend, &fake}, {0}};
            if (!k || strchr(devices[i], 'c')) shared_texts(devices[i], list);
        }
}

static void weights_are_read_and_held_once(void **unused)
{
    (void)unused;
    fake_log log = {0};
    const fake_options fake = {.log = &log};
    const backend_use list[] = {{&cpu_backend, NULL}, {&fake_backend, &fake}, {0}};
    program *p = random_model(&shared_shape, 4);
    err e = {0};
    plan_case c = {.devices = "fake;cpu:2;fake", .backends = list, .rows = SHARED_ROWS, .pages = SHARED_PAGES};
    plan *l[3];
    assert_ok(rig_plan_place(&l[0], p, &c, &e), &e);
    const unsigned long long read = log.weights, calls = log.all;
    const uint64_t first = plan_taken_bytes(l[0]);
    plan_room room[2];
    assert_true(plan_memory(l[0], 0, DTYPE_F32, DTYPE_F32, &room[0]));
    c.shares = l[0];
    for (int i = 1; i < 3; i++) {
        assert_ok(rig_plan_place(&l[i], p, &c, &e), &e);
        assert_true(plan_taken_bytes(l[i]) == plan_taken_bytes(l[1]) && plan_taken_bytes(l[i]) + read <= first);
    }
    assert_true(log.weights == read && log.all == calls && log.calls[FAKE_weights_open] == 2);
    assert_true(plan_memory(l[2], 0, DTYPE_F32, DTYPE_F32, &room[1]) && room[0].left == room[1].left);
    for (int i = 0; i < 3; i++) plan_close(l[i]);
    program_free(p);
}

/* One step more on each of two plans; the first fails, and the other one where the device is lost. */
static void faults_are_told(void **unused)
{
    (void)unused;
    static shared_text text[2];
    program *p = random_model(&shared_shape, 4);
    for (int lost = 0; lost < 2; lost++) {
        fake_log log = {.lost = lost};
        const fake_options fake = {.log = &log};
        const backend_use list[] = {{&fake_backend, &fake}, {0}};
        err e = {0};
        plan_case c = {.devices = "fake", .backends = list, .rows = SHARED_ROWS, .pages = SHARED_PAGES};
        for (int i = 0; i < 2; i++) {
            text[i] = (shared_text){.seed = 7, .l = rig_plan(p, c)};
            c.shares = text[0].l;
            assert_ok(shared_step(&text[i], 9, &e), &e);
        }
        log.fail_at = log.all + 1;
        assert_int_equal(shared_step(&text[0], 1, &e), lost ? ERR_IO : ERR_MEMORY);
        e = (err){0};
        assert_int_equal(shared_step(&text[1], 1, &e), lost ? ERR_IO : OK);
        e = (err){0};
        assert_int_equal(shared_step(&text[0], 1, &e), lost ? ERR_IO : OK);
        for (int i = 0; i < 2; i++) plan_close(text[i].l);
    }
    program_free(p);
}

/* What a plan cannot take from another one. */
static void others_are_refused(void **unused)
{
    (void)unused;
    static const struct {
        const char *devices;
        bool other, inexact;
    } wrong[] = {{"cpu:1;cpu:2", false, false}, {"cpu:2;fake", false, false},  {"cpu:2;cpu:2;cpu:2", false, false},
                 {"cpu:2", false, false},       {"cpu:2&cpu:2", false, false}, {"cpu:2;cpu:2*3", false, false},
                 {"cpu:2;cpu:2", true, false},  {"cpu:2;cpu:2", false, true}};
    const backend_use list[] = {{&cpu_backend, NULL}, {&fake_backend, NULL}, {0}};
    program *p = random_model(&shared_shape, 4), *other = random_model(&shared_shape, 4);
    plan *l, *none;
    err e = {0};
    plan_case c = {.devices = "cpu:2;cpu:2", .backends = list, .rows = SHARED_ROWS, .pages = SHARED_PAGES};
    assert_ok(rig_plan_open(&l, p, &c, &e), &e);
    c.shares = l;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        c.devices = wrong[i].devices;
        c.inexact = wrong[i].inexact;
        if (rig_plan_place(&none, wrong[i].other ? other : p, &c, &e) != ERR_USAGE) fail_msg("case %d", (int)i);
        e = (err){0};
    }
    plan_close(l);
    program_free(p);
    program_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts_at_once),
                                       cmocka_unit_test(weights_are_read_and_held_once),
                                       cmocka_unit_test(faults_are_told), cmocka_unit_test(others_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
