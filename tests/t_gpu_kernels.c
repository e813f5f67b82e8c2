/* t_gpu_kernels.c - the software GPU runs kernels written by hand: branches that part and meet, calls, shared memory,
 * atomics, shuffles and votes, copies that are waited for. What each writes can be told beforehand. */
#include "gpu_rig.h"

enum { ROOM = 4096 };
static char said[ROOM];

static uint32_t words[1024];

/* The first n words that a kernel of one block has written. */
static int run(const char *kernel, unsigned threads, unsigned shared, void **more, int n)
{
    CUdeviceptr y;
    void *params[4] = {&y, more ? more[0] : NULL, more && more[0] ? more[1] : NULL, NULL};
    WANT(!gpu.cuMemAlloc_v2(&y, sizeof words) && !gpu.cuMemsetD32_v2(y, 77, 1024));
    WANT(!gpu_go(kernel, 1, threads, shared, NULL, params));
    WANT(!gpu.cuMemcpyDtoH_v2(words, y, 4 * (size_t)n));
    return 0;
}

static int diverge_case(void)
{
    WANT(!run("diverge", 40, 0, NULL, 80));
    for (uint32_t i = 0; i < 40; i++) {
        const uint32_t lanes = i < 32 ? 0xffffffff : 0xff;
        WANT(words[2 * i] == (lanes & (i % 2 ? 0xaaaaaaaa : 0x55555555)));
        WANT(words[2 * i + 1] == lanes);
    }
    return 0;
}
static void branches_part_and_meet(void **state) { (void)state, gpu_case(diverge_case, "", said, ROOM); }

static int turns_case(void)
{
    WANT(!run("turns", 64, 0, NULL, 64));
    for (uint32_t i = 0; i < 64; i++) WANT(words[i] == (i ^ 1) * ((i ^ 1) - 1) / 2);
    return 0;
}
static void loops_of_different_lengths_end_before_a_shuffle(void **state)
{
    (void)state;
    gpu_case(turns_case, "", said, ROOM);
}

static int calls_case(void)
{
    static const uint32_t weight[] = {1, 0, 2, 0};
    WANT(!run("calls", 32, 0, NULL, 32));
    for (uint32_t i = 0; i < 32; i++) WANT(words[i] == (i > 3 ? 77 : 6 * i + 11 + weight[i]));
    return 0;
}
static void calls_pass_values_by_name_and_by_address(void **state)
{
    (void)state, gpu_case(calls_case, "", said, ROOM);
}

static int neighbour_case(void)
{
    uint32_t yes = 1;
    WANT(!run("neighbour", 128, 0, PARAMS(&yes, NULL), 128));
    for (uint32_t i = 0; i < 128; i++) WANT(words[i] == (i + 1) % 128);
    return 0;
}
static void a_barrier_lets_the_neighbour_read(void **state)
{
    (void)state;
    for (int seed = 1; seed < 6; seed++) {
        char settings[40];
        snprintf(settings, sizeof settings, "SOFT_GPU_SEED=%d", seed);
        gpu_case(neighbour_case, settings, said, ROOM);
    }
}

static int lanes_case(void)
{
    for (uint32_t how = 1; how <= 2; how++) {
        WANT(!run("lanes", 32, 128, PARAMS(&how, NULL), 32));
        for (uint32_t i = 0; i < 32; i++) WANT(words[i] == (how == 2 && i > 15 ? 77 : i ^ 1));
    }
    return 0;
}
static void a_barrier_of_some_lanes_orders_those(void **state) { (void)state, gpu_case(lanes_case, "", said, ROOM); }

static int count_case(void)
{
    CUdeviceptr y, counter;
    uint32_t got[2], most, zero = 0;
    size_t bytes;
    WANT(!gpu.cuModuleGetGlobal_v2(&counter, &bytes, gpu.kernels, "counter") && bytes == 4);
    WANT(!gpu.cuMemcpyHtoD_v2(counter, &zero, 4));
    WANT(!gpu.cuMemAlloc_v2(&y, 8) && !gpu.cuMemsetD32_v2(y, 0, 2));
    WANT(!gpu_go("count", 7, 96, 0, NULL, PARAMS(&y)) && !gpu.cuMemcpyDtoH_v2(got, y, 8));
    WANT(got[0] == 7 * 96 && got[1] == 7 * 96);
    WANT(!gpu.cuMemcpyDtoH_v2(&most, counter, 4) && most == 95);
    return 0;
}
static void atomics_count_every_thread(void **state) { (void)state, gpu_case(count_case, "", said, ROOM); }

static int votes_case(void)
{
    WANT(!run("votes", 32, 0, NULL, 128));
    for (uint32_t i = 0; i < 32; i++) {
        WANT(words[4 * i] == (i < 29 ? i + 3 : i) && words[4 * i + 1] == 0x7f && words[4 * i + 2] == 496);
        WANT(words[4 * i + 3] == (i < 29 ? 6 : 2));
    }
    return 0;
}
static void lanes_shuffle_vote_and_add(void **state) { (void)state, gpu_case(votes_case, "", said, ROOM); }

static int flag_case(void)
{
    for (uint32_t how = 0; how < 2; how++) {
        CUdeviceptr y, to;
        uint32_t got;
        WANT(!gpu.cuMemAlloc_v2(&y, 128) && !gpu.cuMemAlloc_v2(&to, 4) && !gpu.cuMemsetD32_v2(y, 0, 32));
        WANT(!gpu_go("flag", 2, 1, 0, NULL, PARAMS(&y, &to, &how)) && !gpu.cuMemcpyDtoH_v2(&got, to, 4) && got == 99);
    }
    return 0;
}
static void a_flag_that_is_released_and_acquired_hands_over(void **state)
{
    (void)state;
    gpu_case(flag_case, "", said, ROOM);
    gpu_case(flag_case, "SOFT_GPU_SEED=9", said, ROOM);
}

/* cp.async: with the wait the new bytes, without it poison. */
static int fetch_case(void)
{
    CUdeviceptr x, y;
    uint32_t in[64 * 4], out[64];
    for (uint32_t i = 0; i < 256; i++) in[i] = i * 3;
    WANT(!gpu.cuMemAlloc_v2(&x, sizeof in) && !gpu.cuMemAlloc_v2(&y, sizeof out) &&
         !gpu.cuMemcpyHtoD_v2(x, in, sizeof in));
    for (uint32_t wait = 0; wait < 2; wait++) {
        WANT(!gpu_go("fetch", 1, 64, 0, NULL, PARAMS(&x, &y, &wait)) && !gpu.cuMemcpyDtoH_v2(out, y, sizeof out));
        for (uint32_t i = 0; i < 64; i++) WANT(out[i] == (wait ? (4 * i + 1) * 3 : 0xffffffff));
    }
    return 0;
}
static void copies_arrive_when_they_are_waited_for(void **state) { (void)state, gpu_case(fetch_case, "", said, ROOM); }

static int wide_case(void)
{
    typedef unsigned __int128 u128;
    static const uint64_t given[2][2] = {{0xfedcba9876543210, 0x8000000000000001},
                                         {0xffffffffffff1234, 0x7fffffffffffffff}};
    CUdeviceptr x, y, z;
    u128 a, b, got[3];
    WANT(!gpu.cuMemAlloc_v2(&x, 16) && !gpu.cuMemAlloc_v2(&y, 16) && !gpu.cuMemAlloc_v2(&z, 48));
    WANT(!gpu.cuMemcpyHtoD_v2(x, given[0], 16) && !gpu.cuMemcpyHtoD_v2(y, given[1], 16));
    WANT(!gpu_go("wide", 1, 1, 0, NULL, PARAMS(&x, &y, &z)) && !gpu.cuMemcpyDtoH_v2(got, z, 48));
    memcpy(&a, given[0], 16), memcpy(&b, given[1], 16);
    WANT(got[0] == a + b && got[1] == a && got[2] == (u128)given[0][0] * given[1][0]);
    return 0;
}
static void carries_make_wide_numbers(void **state) { (void)state, gpu_case(wide_case, "", said, ROOM); }

static int jump_case(void)
{
    static const uint32_t want[] = {100, 101, 102, 101};
    WANT(!run("jump", 64, 0, NULL, 64));
    for (uint32_t i = 0; i < 64; i++) WANT(words[i] == want[i % 4]);
    return 0;
}
static void a_table_of_branches_parts_lanes(void **state) { (void)state, gpu_case(jump_case, "", said, ROOM); }

static int poison_case(void)
{
    CUdeviceptr small, large;
    uint32_t got[4];
    const size_t size = 9 << 20;
    WANT(!gpu.cuMemAlloc_v2(&small, 16) && !gpu.cuMemAlloc_v2(&large, size));
    WANT(!gpu.cuMemcpyDtoH_v2(got, small, 16) && got[0] == 0xffffffff && got[3] == 0xffffffff);
    WANT(!gpu.cuMemcpyDtoH_v2(got, large + size - 16, 16) && got[0] == 0xffffffff && got[3] == 0xffffffff);
    return 0;
}
static void memory_is_poisoned_when_it_is_given_out(void **state)
{
    (void)state, gpu_case(poison_case, "", said, ROOM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(branches_part_and_meet),
        cmocka_unit_test(loops_of_different_lengths_end_before_a_shuffle),
        cmocka_unit_test(calls_pass_values_by_name_and_by_address),
        cmocka_unit_test(a_barrier_lets_the_neighbour_read),
        cmocka_unit_test(a_barrier_of_some_lanes_orders_those),
        cmocka_unit_test(atomics_count_every_thread),
        cmocka_unit_test(lanes_shuffle_vote_and_add),
        cmocka_unit_test(a_flag_that_is_released_and_acquired_hands_over),
        cmocka_unit_test(copies_arrive_when_they_are_waited_for),
        cmocka_unit_test(carries_make_wide_numbers),
        cmocka_unit_test(a_table_of_branches_parts_lanes),
        cmocka_unit_test(memory_is_poisoned_when_it_is_given_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
