/* t_cache_snapshot_short.c - texts that share snapshots of states of fixed size (t_cache_snapshot) are those of a fresh
 * engine, bit for bit, when slots, names and pages are short, and when a step fails. */
#include "snapshot_rig.h"

/* Few slots, names and pages: snapshots make room, the oldest first, and no text is changed. */
static void short_of_slots(void **unused)
{
    (void)unused;
    static text alone[QUERIES], got[2 * QUERIES];
    for (int kind = 0; kind < KINDS; kind++) {
        for (int k = 0; k < QUERIES; k++) {
            make_searched(&alone[k], k, 300 * (k % 3), 300 + 90 * k, TOKENS);
            run_alone(&alone[k], kind);
        }
        for (int w = kind; w < 3 * WAYS; w += 4) {
            engine *g = open_way(w / 3, kind, w % 2 ? "ngram" : NULL);
            text_limit_slots(g, 6 + w % 3); /* beams take six */
            if (w % 3 == 1) g->kv.tree.cap = 70;
            for (uint32_t i = 0; i < g->prog->n_group && w % 3 == 2; i++) {
                const int64_t rows = g->chunk * g->steps.in_flight;
                g->kv.pages[i].total = g->kv.pages[i].n_free = 3 * pages_needed(1000, g->prog->group_window[i], rows) +
                                                               2;
            }
            for (int k = 0; k < 2 * QUERIES; k++) {
                const int of = (int)(rng_bits(9, (uint64_t)w, (uint64_t)k) % QUERIES);
                make_searched(&got[k], of, 300 * (of % 3), 300 + 90 * of, TOKENS);
                text_add(g, &got[k]);
                if (k % 5 == 4) text_run(g);
            }
            text_run(g);
            for (int k = 0; k < 2 * QUERIES; k++)
                text_same(&alone[rng_bits(9, (uint64_t)w, (uint64_t)k) % QUERIES], &got[k]);
            text_all_given_back(g);
            engine_close(g);
        }
    }
}

/* A step fails, with a snapshot or without: texts that have no rows in it go on, and so does one that comes after. */
static void faults(void **unused)
{
    (void)unused;
    enum { TEXTS = 4 };
    static text alone[TEXTS], got[TEXTS];
    for (int k = 0; k < TEXTS; k++) {
        make_searched(&alone[k], k, 530, 550, 6);
        run_alone(&alone[k], HYBRID);
    }
    int failed = 0;
    bool reached = true;
    for (unsigned at = 1; reached; at += 5) {
        engine *g = open_way(4, HYBRID, NULL);
        done.fail_at = atomic_load(&done.all) + at;
        for (int k = 0; k < TEXTS; k++) {
            make_searched(&got[k], k, 530, 550, 6);
            got[k].may_fail = true;
            text_add(g, &got[k]);
            if (k >= TEXTS - 2) text_run(g);
            if (k == TEXTS - 2) reached = atomic_load(&done.all) >= done.fail_at;
        }
        for (int k = 0; k < TEXTS; k++) {
            assert_int_equal(got[k].ends, 1);
            if (got[k].finish != FINISH_ERROR) text_same(&alone[k], &got[k]);
            else failed++;
        }
        if (reached) assert_int_equal(got[TEXTS - 1].n, 6);
        text_all_given_back(g);
        engine_close(g);
        done.fail_at = 0;
    }
    assert_true(failed > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(short_of_slots), cmocka_unit_test(faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
