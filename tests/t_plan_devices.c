/* t_plan_devices.c - the same bits on any devices: every model of tests/vectors on the CPU, on several, and on devices
 * that are nobody's (fake/fake_backend.h), with 1, 2 and 4 steps in flight, in chunks of 1, 7 and 128 rows, over every
 * type of cache and packed weights.
 *
 * Each model takes some of the combinations, all of them with DEVICES=all (make test-devices) or DEVICES=the model's
 * name; WAY=LIST: each model on these devices, ENDS=away: with tables and head on nodes. What is compared: ways_rig.h.
 */
#include "ways_rig.h"

#include <malloc.h>

static const char *const kinds[] = {"f32", "f16", "i16", "q8", "q4"};
static const char *const types[] = {NULL, "q8_b64", NULL, "q4_b64", "q8_0", NULL, "q4_t", "q4_k", NULL, "q3h_t"};
static const way ways[] = {{"fake", 1, 7},
                           {"cpu;fake", 4, 128},
                           {"fake;cpu", 2, 1},
                           {"fake;fake", 4, 7},
                           {"cpu;cpu;cpu", 4, 7},
                           {"fake", 4, 128},
                           {"cpu;cpu", 2, 7},
                           {"cpu;fake", 2, 7},
                           {"fake;cpu", 4, 128},
                           {"cpu;cpu", 4, 1},
                           {"cpu", 4, 7},
                           {"cpu;fake;fake", 4, 7},
                           {"fake", 2, 1},
                           {"cpu&cpu", 1, 7},
                           {"cpu&cpu&cpu", 1, 128},
                           {"cpu*3&cpu", 2, 7},
                           {"fake&cpu", 1, 1},
                           {"cpu&cpu;cpu&fake", 4, 7},
                           {"cpu&cpu;cpu", 2, 128},
                           {"cpu*0;fake;cpu*0", 4, 7},
                           {"fake;cpu*0&cpu*0", 2, 1},
                           {"cpu&cpu&cpu&cpu&cpu", 1, 7},
                           {"a:1/cpu", 1, 7},
                           {"a:1/cpu;cpu;b:1/cpu", 4, 128},
                           {"a:1/cpu&b:1/cpu", 2, 7},
                           {"cpu&a:1/fake&cpu;b:1/cpu", 3, 7},
                           {"a:1/cpu&a:1/cpu;a:1/cpu&cpu", 1, 1},
                           {"cpu&cpu", 2, 7},
                           {"cpu&cpu;fake&cpu", 3, 7},
                           {"a:1/cpu&b:1/fake&c:1/cpu", 4, 1},
                           {"cpu&a:1/cpu", 3, 7},
                           {"a:1/cpu", 1, 7, ENDS_AWAY},
                           {"cpu;a:1/fake", 3, 1, ENDS_AWAY},
                           {"a:1/cpu;b:1/cpu", 4, 128, ENDS_AWAY},
                           {"a:1/fake;cpu", 2, 7, ENDS_AWAY},
                           {"a:1/cpu&b:1/cpu", 2, 7, ENDS_AWAY},
                           {"cpu&a:1/fake&cpu;b:1/cpu", 3, 7, ENDS_AWAY},
                           {"a:1/cpu;cpu&b:1/cpu*2&b:1/fake", 3, 128, ENDS_AWAY}};
enum { KINDS = sizeof kinds / sizeof *kinds, TYPES = sizeof types / sizeof *types, WAYS = sizeof ways / sizeof *ways };

static int compare_all(const char *folder, const inputs *x)
{
    static const char *const devices[] = {"cpu",         "cpu;cpu",           "cpu;cpu;cpu", "fake",
                                          "cpu;fake",    "fake;cpu",          "fake;fake",   "cpu&cpu",
                                          "cpu&cpu&cpu", "cpu&fake&cpu&fake", "cpu*3&cpu",   "cpu&fake;fake&cpu"};
    static const int in_flight[] = {1, 2, 4}, chunk[] = {1, 7, 128};
    way all[108];
    int wrong = 0, n = 0;
    for (int d = 0; d < 12; d++)
        for (int i = 0; i < 9; i++) all[n++] = (way){devices[d], in_flight[i / 3], chunk[i % 3], ENDS_HOME};
    for (int k = 0; k < KINDS; k++) wrong += compare(folder, x, kinds[k], NULL, all, n);
    for (int t = 0; t < TYPES; t++)
        if (types[t]) wrong += compare(folder, x, "i16", types[t], all, n);
    return wrong;
}

static int compare_folder(const char *folder, const char *name, int turn)
{
    way chosen[3];
    const char *all = getenv("DEVICES");
    if (all && strcmp(all, "all") && strcmp(all, name)) return 0;
    const inputs x = inputs_read(folder);
    const way only = {getenv("WAY"), 1, 7, getenv("ENDS") ? ENDS_AWAY : ENDS_HOME};
    if (only.devices) return compare(folder, &x, kinds[turn % KINDS], types[turn / KINDS % TYPES], &only, 1);
    if (all) return compare_all(folder, &x);
    for (int i = 0; i < 3; i++) chosen[i] = ways[(turn + 4 * i) % WAYS];
    return compare(folder, &x, kinds[turn % KINDS], types[turn / KINDS % TYPES], chosen, 3);
}

static void decoders(void **unused)
{
    (void)unused;
    check_models(vectors, compare_folder);
    assert_true(compared > 200 || getenv("DEVICES") || getenv("WAY"));
}

static void encoders(void **unused)
{
    (void)unused;
    check_models("tests/vectors/encoders", compare_folder);
}

int main(void)
{
    mallopt(M_PERTURB, 0x5a); /* what nobody wrote is never what another run left */
    const struct CMUnitTest tests[] = {cmocka_unit_test(decoders), cmocka_unit_test(encoders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
