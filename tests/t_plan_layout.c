/* t_plan_layout.c - which layout `--devices auto` finds best, by numbers that are added up by hand. */
#include "plan/layout.h"
#include "test.h"

#include <math.h>

static layout list[LAYOUTS_MAX];

static layout_task task_of(int n, const double *layer)
{
    layout_task t = {.n_device = n, .layers = 10, .layer_bytes = 100};
    for (int i = 0; i < n; i++) {
        t.device[i] = (layout_device){.layer = layer[i], .crowded = layer[i], .bytes = 10000};
        snprintf(t.device[i].name, sizeof t.device[i].name, "d%d", i);
    }
    return t;
}

static void set_delay(layout_task *t, double seconds)
{
    for (int a = 0; a < t->n_device; a++)
        for (int b = 0; b < t->n_device; b++) t->delay[a][b] = a == b ? 0 : seconds;
}

static double token_of(int n, const char *devices)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(buf_cstr(&list[i].devices), devices)) return list[i].token;
    fail_msg("no %s", devices);
    return 0;
}

static bool near(double a, double b) { return fabs(a - b) < 1e-9 * (1 + fabs(b)); }

static void the_fastest_device_is_filled(void **unused)
{
    (void)unused;
    layout_task t = task_of(3, (double[]){4, 1, 2});
    set_delay(&t, 1);
    t.exchanges = 1000; /* no group of ranks is worth it */
    t.device[1].bytes = 700;
    t.device[2].bytes = 250;
    const int n = layouts_make(list, &t);
    assert_true(n > 0);
    assert_string_equal(buf_cstr(&list[0].devices), "d0*1;d1*7;d2*2");
    assert_true(near(list[0].token, 4 + 7 + 2 * 2 + 1 + 1 + 1)); /* to the second, the third, and back */
    layouts_free(list, n);
    t.device[1].bytes = 100000;
    const int all = layouts_make(list, &t);
    assert_true(near(token_of(all, "d0"), 40) && near(token_of(all, "d1"), 10 + 2));
    layouts_free(list, all);
}

static void ranks_share_by_speed(void **unused)
{
    (void)unused;
    layout_task t = task_of(3, (double[]){3, 3, 1.5});
    t.exchanges = 4;
    t.exchange_bytes = 400;
    t.handling = 0.001;
    set_delay(&t, 0.01);
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) t.rate[a][b] = 1e5;
    t.device[0].crowded = t.device[1].crowded = 4;
    t.device[2].crowded = 2;
    const int n = layouts_make(list, &t);
    /* a quarter, a quarter, a half: one second a layer, and four times a hundred bytes */
    const double exchange = 4 * (0.01 + 0.001 + 0.001), way = 2 * 0.011;
    assert_string_equal(buf_cstr(&list[0].devices), "d0*2.5&d1*2.5&d2*5");
    assert_true(near(list[0].token, 10 * (1 + exchange) + way));
    assert_true(near(token_of(n, "d0*3.33&d2*6.67"), 10 * (4.0 / 3 + exchange) + way));
    layouts_free(list, n);
}

static void groups_of_neighbours(void **unused)
{
    (void)unused;
    layout_task t = task_of(4, (double[]){1, 1, 1, 1});
    t.exchanges = 2;
    set_delay(&t, 5);
    t.delay[0][1] = t.delay[1][0] = t.delay[2][3] = t.delay[3][2] = 0.01; /* two places */
    for (int i = 0; i < 4; i++) t.device[i].bytes = 300;                  /* all are needed */
    const int n = layouts_make(list, &t);
    assert_string_equal(buf_cstr(&list[0].devices), "d0*2.5&d1*2.5;d2*2.5&d3*2.5");
    assert_true(near(list[0].token, 10 * (0.5 + 2 * 0.01) + 0.01 + 5 + 5));
    assert_true(near(token_of(n, "d0*3;d1*3;d2*3;d3*1"), 10 + 0.01 + 5 + 0.01 + 5));
    for (int i = 1; i < n; i++) assert_true(list[i].token >= list[i - 1].token);
    layouts_free(list, n);
}

static void too_little_memory(void **unused)
{
    (void)unused;
    layout_task t = task_of(2, (double[]){1, 1});
    t.device[0].bytes = t.device[1].bytes = 499;
    assert_int_equal(layouts_make(list, &t), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_fastest_device_is_filled),
                                       cmocka_unit_test(ranks_share_by_speed), cmocka_unit_test(groups_of_neighbours),
                                       cmocka_unit_test(too_little_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
