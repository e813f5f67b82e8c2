/* t_cuda_in_flight.c - schedules of queries (schedule_rig.h) on the CUDA backend, whose devices are programs here
 * (tests/gpu): several steps under way, texts that share pages, wait, are cancelled, are put back for lack of pages. */
#include "cuda_rig.h"
#include "schedule_rig.h"

static void check_schedules(const char *folder, const char *devices, uint64_t seed, int pages)
{
    make_schedule_queries(folder);
    run_schedules_on(engine_made(folder, devices, IN_FLIGHT, NULL), seed, 2, pages);
}

static void schedules_of_windows(void **unused)
{
    (void)unused;
    check_schedules(NULL, "cuda:0", 1000, 0);
    check_schedules(NULL, "cuda:0;cuda:1", 2000, 0);
}

static void schedules_of_ranks(void **unused)
{
    (void)unused;
    check_schedules(NULL, "cuda:0&cuda:1", 3000, 0);
}

static void schedules_of_slots(void **unused)
{
    (void)unused;
    check_schedules("tests/vectors/models/lfm2", "cuda:0;cpu", 4000, 0);
}

static void schedules_of_encoders(void **unused)
{
    (void)unused;
    check_schedules("tests/vectors/models/t5", "cpu;cuda:0", 5000, 0);
}

static void schedules_short_of_pages(void **unused)
{
    (void)unused;
    check_schedules(NULL, "cpu;cuda:0", 6000, 13);
}

/* Pages that texts share, copy and give back, of which the last layer's are in memory of the host. */
static void schedules_of_pages_on_the_host(void **unused)
{
    (void)unused;
    schedule_kv_host = 50;
    check_schedules(NULL, "cuda:0", 7000, 13);
    check_schedules(NULL, "cuda:0;cpu", 8000, 0);
    schedule_kv_host = 0;
}

static void closed_at_work(void **unused)
{
    (void)unused;
    make_queries(NULL, 100, TOKENS - 1);
    for (int k = 1; k < 8; k += 3) close_at_work(engine_made(NULL, "cuda:0;cuda:1", IN_FLIGHT, NULL), k);
}

int main(void)
{
    if (!cuda_rig_open()) return 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(schedules_of_windows),
                                       cmocka_unit_test(schedules_of_ranks),
                                       cmocka_unit_test(schedules_of_slots),
                                       cmocka_unit_test(schedules_of_encoders),
                                       cmocka_unit_test(schedules_short_of_pages),
                                       cmocka_unit_test(schedules_of_pages_on_the_host),
                                       cmocka_unit_test(closed_at_work)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
