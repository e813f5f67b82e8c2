/* t_cuda_models.c - models of tests/vectors on the CUDA backend, whose devices are programs here (tests/gpu): the bits
 * of the CPU, over every type of cache and packed weights. t_cuda_lists.c has other lists of devices.
 *
 * One model in twelve; CUDA_TESTS=all: every one. DEVICES=NAME: that model alone. Two processes share the models. */
#include "cuda_rig.h"
#include "ways_rig.h"

#include <sys/wait.h>

enum { SHARES = 2 };

static const char *const kinds[] = {"f32", "f16", "i16", "q8", "q4"};
static const char *const types[] = {NULL,   "q8_b64", NULL, "q4_b64", "q8_0", NULL,
                                    "q4_t", "q4_k",   NULL, "q3h_t",  "q6_k"};
enum { KINDS = sizeof kinds / sizeof *kinds, TYPES = sizeof types / sizeof *types };

static int share; /* that this process takes */

static int compare_folder(const char *folder, const char *name, int turn)
{
    static const int chunks[] = {7, 2048, 16, 7, 1};
    const char *only = getenv("DEVICES");
    enum { ONE_IN = 12 };
    const int mine = getenv("CUDA_TESTS") ? turn : turn / ONE_IN;
    if (only ? strcmp(only, name) : !cuda_takes_case(turn, ONE_IN) || mine % SHARES != share) return 0;
    const inputs x = inputs_read(folder);
    turn /= SHARES;
    const way how = {"cuda:0", 1 + turn / 3 % 2, chunks[turn / 2 % 5], .brief = turn % 4 > 0};
    return compare(folder, &x, kinds[turn % KINDS], types[turn % TYPES], &how, 1);
}

static void decoders(void **unused)
{
    (void)unused;
    check_models(vectors, compare_folder);
    assert_true(compared > 4 || getenv("DEVICES"));
}

static void encoders(void **unused)
{
    (void)unused;
    check_models("tests/vectors/encoders", compare_folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(decoders), cmocka_unit_test(encoders)};
    int other = 0;
    if (!cuda_rig_open()) return 0;
    const pid_t child = fork();
    if (child < 0) return perror("fork"), 1;
    share = child == 0;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (child && waitpid(child, &other, 0) != child) return 1;
    return failed || other;
}
