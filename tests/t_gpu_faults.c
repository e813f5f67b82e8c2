/* t_gpu_faults.c - the software GPU finds what a kernel does wrong: the launch fails, the error stays, and a line on
 * stderr names kernel, thread, line and allocation. */
#include "gpu_rig.h"

enum { ROOM = 4096 };
static char said[ROOM];

/* A launch that has to fail with that error, for good. */
static int fails(CUresult error)
{
    CUdeviceptr more;
    WANT(gpu.cuCtxSynchronize() == error && gpu.cuCtxSynchronize() == error);
    WANT(gpu.cuMemAlloc_v2(&more, 4) == error);
    return 0;
}

/* peek at offset of 64 bytes, which are freed before when they are to be. */
static int peek(uint64_t offset, bool freed, CUresult error)
{
    CUdeviceptr y, z;
    WANT(!gpu.cuMemAlloc_v2(&y, 64) && !gpu.cuMemAlloc_v2(&z, 4) && !gpu.cuMemsetD32_v2(y, 3, 16));
    if (freed) WANT(!gpu.cuMemFree_v2(y));
    WANT(!gpu_go("peek", 1, 1, 0, NULL, PARAMS(&y, &z, &offset)));
    return error ? fails(error) : gpu.cuCtxSynchronize();
}

static int last_case(void) { return peek(60, false, CUDA_SUCCESS); }
static int behind_case(void) { return peek(64, false, CUDA_ERROR_ILLEGAL_ADDRESS); }
static int before_case(void) { return peek((uint64_t)-4, false, CUDA_ERROR_ILLEGAL_ADDRESS); }
static int odd_case(void) { return peek(2, false, CUDA_ERROR_MISALIGNED_ADDRESS); }
static int freed_case(void) { return peek(0, true, CUDA_ERROR_ILLEGAL_ADDRESS); }

static void addresses_are_checked(void **state)
{
    (void)state;
    gpu_case(last_case, "", said, ROOM);
    assert_string_equal(said, "");
    gpu_case(behind_case, "", said, ROOM);
    assert_non_null(strstr(said, "error 700 in peek, block (0,0,0), thread (0,0,0), PTX line "));
    assert_non_null(strstr(said, "ld.global.u32: reads 4 bytes"));
    assert_non_null(strstr(said, "0 bytes behind the 64 at"));
    gpu_case(before_case, "", said, ROOM);
    gpu_case(odd_case, "", said, ROOM);
    assert_non_null(strstr(said, "no multiple of 4"));
    gpu_case(freed_case, "", said, ROOM);
    assert_non_null(strstr(said, "freed"));
}

/* A device address means nothing to the host. */
static int host_case(void)
{
    CUdeviceptr y;
    WANT(!gpu.cuMemAlloc_v2(&y, 64));
    int ends[2];
    WANT(!pipe(ends) && write(ends[1], (void *)(uintptr_t)y, 4) < 0);
    return 0;
}
static void a_host_cannot_read_device_memory(void **state) { (void)state, gpu_case(host_case, "", said, ROOM); }

static int peer_case(void)
{
    CUdeviceptr y, z;
    CUcontext other;
    uint64_t offset = 0;
    WANT(!gpu.cuMemAlloc_v2(&y, 64) && !gpu.cuMemsetD32_v2(y, 3, 16));
    WANT(!gpu.cuModuleUnload(gpu.kernels));
    WANT(!gpu.cuDevicePrimaryCtxRetain(&other, 1) && !gpu.cuCtxSetCurrent(other));
    char *text = gpu_text("tests/gpu/kernels.ptx");
    WANT(text && !gpu.cuModuleLoadData(&gpu.kernels, text) && !gpu.cuMemAlloc_v2(&z, 4));
    free(text);
    if (getenv("ALLOWED")) WANT(!gpu.cuCtxEnablePeerAccess(gpu.cx, 0));
    WANT(!gpu_go("peek", 1, 1, 0, NULL, PARAMS(&y, &z, &offset)));
    return getenv("ALLOWED") ? gpu.cuCtxSynchronize() : fails(CUDA_ERROR_ILLEGAL_ADDRESS);
}
static void another_devices_memory_needs_leave(void **state)
{
    (void)state;
    gpu_case(peer_case, "ALLOWED=1", said, ROOM);
    gpu_case(peer_case, "", said, ROOM);
    assert_non_null(strstr(said, "which device 1 may not touch"));
}

static int half_case(void)
{
    WANT(!gpu_go("half", 1, 64, 0, NULL, NULL));
    return fails(CUDA_ERROR_LAUNCH_FAILED);
}
static int stuck_case(void)
{
    CUdeviceptr y;
    WANT(!gpu.cuMemAlloc_v2(&y, 4) && !gpu.cuMemsetD32_v2(y, 0, 1) && !gpu_go("stuck", 3, 32, 0, NULL, PARAMS(&y)));
    return fails(CUDA_ERROR_LAUNCH_FAILED);
}
static void threads_that_wait_for_ever_are_found(void **state)
{
    (void)state;
    gpu_case(stuck_case, "SOFT_GPU_PATIENCE=100000", said, ROOM);
    assert_non_null(strstr(said, "no block has ended for 100000 instructions"));
    gpu_case(half_case, "", said, ROOM);
    assert_non_null(strstr(said, "wait for each other for ever"));
}

/* ---- races ---- */

static int races(const char *kernel, unsigned blocks, unsigned threads, void **params)
{
    WANT(!gpu_go(kernel, blocks, threads, 1024, NULL, params));
    return fails(CUDA_ERROR_LAUNCH_FAILED);
}
static CUdeviceptr some_memory(void)
{
    CUdeviceptr y = 0;
    gpu.cuMemAlloc_v2(&y, 4096);
    gpu.cuMemsetD32_v2(y, 0, 1024);
    return y;
}

static int neighbour_case(void)
{
    CUdeviceptr y = some_memory();
    uint32_t barrier = 0;
    return races("neighbour", 1, 64, PARAMS(&y, &barrier));
}
static int lanes_case(void)
{
    CUdeviceptr y = some_memory();
    uint32_t how = 0;
    return races("lanes", 1, 32, PARAMS(&y, &how));
}
static int blocks_case(void)
{
    CUdeviceptr y = some_memory(), z = some_memory();
    return races("blocks", 2, 1, PARAMS(&y, &z));
}
static int flag_case(void)
{
    CUdeviceptr y = some_memory(), z = some_memory();
    uint32_t how = 2;
    return races("flag", 2, 1, PARAMS(&y, &z, &how));
}
static int increase_case(void)
{
    CUdeviceptr y = some_memory();
    return races("increase", 1, 2, PARAMS(&y));
}
static int twice_case(void) /* two launches are ordered by their stream */
{
    CUdeviceptr y = some_memory();
    uint32_t got;
    for (int i = 0; i < 5; i++) WANT(!gpu_go("increase", 1, 1, 0, NULL, PARAMS(&y)));
    WANT(!gpu.cuMemcpyDtoH_v2(&got, y, 4) && got == 5);
    return 0;
}
static int off_case(void)
{
    CUdeviceptr y = some_memory();
    WANT(!gpu_go("increase", 1, 2, 0, NULL, PARAMS(&y)));
    return gpu.cuCtxSynchronize();
}

static void races_are_found_whatever_the_order(void **state)
{
    static int (*const cases[])(void) = {neighbour_case, lanes_case, blocks_case, flag_case, increase_case};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int seed = 1; seed < 8; seed++) {
            char settings[40];
            snprintf(settings, sizeof settings, "SOFT_GPU_SEED=%d", seed);
            gpu_case(cases[i], settings, said, ROOM);
            assert_non_null(strstr(said, "a race: it "));
            assert_non_null(strstr(said, "nothing orders the two"));
        }
}
static void what_is_ordered_is_no_race(void **state)
{
    (void)state;
    gpu_case(twice_case, "", said, ROOM);
    gpu_case(off_case, "SOFT_GPU_RACES=0", said, ROOM);
    assert_string_equal(said, "");
}

/* ---- kernels that wait for another one ---- */

/* What `await` on a stream of its own finds that `leave` left, which is launched behind it on this device. */
static int meet_on(int device, uint32_t how, uint32_t *found)
{
    CUdeviceptr y = some_memory(), z = some_memory();
    CUstream first, second;
    CUcontext other = gpu.cx;
    WANT(!gpu.cuCtxSynchronize() && !gpu.cuStreamCreate(&first, 1));
    WANT(!gpu_go("await", 1, 1, 0, first, PARAMS(&y, &z, &how)));
    if (device) {
        CUmodule here = gpu.kernels;
        char *text = gpu_text("tests/gpu/kernels.ptx");
        WANT(!gpu.cuDevicePrimaryCtxRetain(&other, device) && !gpu.cuCtxSetCurrent(other));
        WANT(!gpu.cuCtxEnablePeerAccess(gpu.cx, 0) && text && !gpu.cuModuleLoadData(&gpu.kernels, text));
        free(text);
        WANT(!gpu.cuStreamCreate(&second, 1) && !gpu_go("leave", 1, 1, 0, second, PARAMS(&y, &how)));
        gpu.kernels = here;
        WANT(!gpu.cuCtxSetCurrent(gpu.cx));
    } else {
        WANT(!gpu.cuStreamCreate(&second, 1) && !gpu_go("leave", 1, 1, 0, second, PARAMS(&y, &how)));
    }
    const CUresult r = gpu.cuStreamSynchronize(first);
    if (r) return fails(r);
    WANT(!gpu.cuMemcpyDtoH_v2(found, z, 4));
    return 0;
}
static int meeting_case(void)
{
    uint32_t found = 0;
    const int bad = meet_on(1, 0, &found);
    return bad ? bad : found == 99 ? 0 : __LINE__;
}
static int relaxed_case(void)
{
    uint32_t found = 0;
    return meet_on(1, 1, &found);
}
static int full_case(void)
{
    uint32_t found = 0;
    const int bad = meet_on(0, 0, &found);
    return bad ? bad : found == 7 || found == 99 ? 0 : __LINE__;
}

/* The other device's kernel has its turns while this one waits, whoever is waited for; on one device a kernel that
 * waits may keep the other one out. A race shows where both have run at one time. */
static void kernels_meet_if_they_have_devices_of_their_own(void **state)
{
    (void)state;
    int raced = 0;
    for (int seed = 1; seed < 8; seed++) {
        char settings[40];
        snprintf(settings, sizeof settings, "SOFT_GPU_SEED=%d", seed);
        gpu_case(meeting_case, settings, said, ROOM);
        assert_string_equal(said, "");
        gpu_case(full_case, settings, said, ROOM);
        gpu_case(relaxed_case, settings, said, ROOM);
        raced += strstr(said, "a race: it reads what thread (0,0,0) of another launch wrote") != NULL;
    }
    assert_true(raced > 0);
}

/* ---- a ring of bulk copies ---- */

static int ring(uint32_t how)
{
    char *text = gpu_text("tests/gpu/kernels90.ptx");
    CUdeviceptr x, y;
    uint32_t in[8 * 32], out[32];
    for (uint32_t i = 0; i < 256; i++) in[i] = i * i;
    WANT(text && !gpu.cuModuleUnload(gpu.kernels) && !gpu.cuModuleLoadData(&gpu.kernels, text));
    free(text);
    WANT(!gpu.cuMemAlloc_v2(&x, sizeof in) && !gpu.cuMemAlloc_v2(&y, sizeof out) &&
         !gpu.cuMemcpyHtoD_v2(x, in, sizeof in));
    WANT(!gpu_go("ring", 1, 64, 0, NULL, PARAMS(&x, &y, &how)));
    if (how) return fails(CUDA_ERROR_LAUNCH_FAILED);
    WANT(!gpu.cuMemcpyDtoH_v2(out, y, sizeof out));
    for (uint32_t l = 0; l < 32; l++) {
        uint32_t want = 0;
        for (uint32_t s = 0; s < 8; s++) want = want * 3 + in[32 * s + l];
        WANT(out[l] == want);
    }
    return 0;
}
static int ring_case(void) { return ring(0); }
static int never_empty_case(void) { return ring(1); }
static int never_full_case(void) { return ring(2); }

static void a_ring_waits_on_both_sides(void **state)
{
    (void)state;
    for (int seed = 1; seed < 8; seed++) {
        char settings[80];
        snprintf(settings, sizeof settings, "SOFT_GPU_CAPABILITY=9.0 SOFT_GPU_SEED=%d", seed);
        gpu_case(ring_case, settings, said, ROOM);
        assert_string_equal(said, "");
        gpu_case(never_empty_case, settings, said, ROOM);
        gpu_case(never_full_case, settings, said, ROOM);
        assert_non_null(strstr(said, "a race: it "));
    }
}

/* ---- kernels that begin before the last one has ended ---- */

/* Eight kernels, each of what the one before wrote; how: of the fifth. */
static int chain(bool captured, uint32_t how)
{
    enum { KERNELS = 8, THREADS = 64 };
    char *text = gpu_text("tests/gpu/kernels90.ptx");
    CUstream s;
    CUgraph g;
    CUgraphExec e;
    CUdeviceptr x[2];
    uint32_t in[THREADS], out[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) in[i] = i * i;
    WANT(text && !gpu.cuModuleUnload(gpu.kernels) && !gpu.cuModuleLoadData(&gpu.kernels, text));
    free(text);
    WANT(!gpu.cuStreamCreate(&s, 1) && !gpu.cuMemAlloc_v2(&x[0], sizeof in) && !gpu.cuMemAlloc_v2(&x[1], sizeof in));
    WANT(!gpu.cuMemcpyHtoD_v2(x[0], in, sizeof in) && (!captured || !gpu.cuStreamBeginCapture_v2(s, 1)));
    for (int k = 0; k < KERNELS; k++) {
        uint32_t as = k == 4 ? how : 0;
        void **params = PARAMS(&x[k % 2], &x[(k + 1) % 2], &as);
        WANT(!(k ? gpu_go_early("next", THREADS, s, params) : gpu_go("next", 1, THREADS, 0, s, params)));
    }
    if (captured) {
        WANT(!gpu.cuStreamEndCapture(s, &g) && !gpu.cuGraphInstantiateWithFlags(&e, g, 0));
        WANT(!gpu.cuGraphLaunch(e, s));
    }
    const CUresult r = gpu.cuStreamSynchronize(s);
    if (how) return r ? fails(r) : 0;
    WANT(!r && !gpu.cuMemcpyDtoH_v2(out, x[0], sizeof out));
    for (uint32_t i = 0; i < THREADS; i++) WANT(out[i] == in[i] + KERNELS);
    return 0;
}
static int chain_case(void) { return chain(false, 0); }
static int captured_chain_case(void) { return chain(true, 0); }
static int no_wait_case(void) { return chain(false, 1); }
static int captured_no_wait_case(void) { return chain(true, 1); }
static int constant_case(void) { return chain(false, 2); }
static int captured_constant_case(void) { return chain(true, 2); }

static void kernels_that_begin_early_wait(void **state)
{
    (void)state;
    int raced[2] = {0};
    for (int seed = 1; seed < 9; seed++) {
        char settings[80];
        snprintf(settings, sizeof settings, "SOFT_GPU_CAPABILITY=9.0 SOFT_GPU_SEED=%d", seed);
        gpu_case(chain_case, settings, said, ROOM);
        assert_string_equal(said, "");
        gpu_case(captured_chain_case, settings, said, ROOM);
        assert_string_equal(said, "");
        for (int captured = 0; captured < 2; captured++) {
            gpu_case(captured ? captured_no_wait_case : no_wait_case, settings, said, ROOM);
            assert_true(strstr(said, "a race: it ") || strstr(said, "ends and has not waited"));
            gpu_case(captured ? captured_constant_case : constant_case, settings, said, ROOM);
            raced[captured] += strstr(said, "ld.global.nc.u32: a race: it reads what thread") != NULL;
        }
    }
    assert_true(raced[0] > 0 && raced[1] > 0);
}

static int too_early_case(void)
{
    uint32_t how = 0;
    CUdeviceptr x;
    WANT(!gpu.cuMemAlloc_v2(&x, 4));
    WANT(gpu_go_early("leave", 1, NULL, PARAMS(&x, &how)) == CUDA_ERROR_NOT_SUPPORTED);
    return 0;
}

/* A graph has such an edge from a kernel alone. */
static int no_kernel_case(void)
{
    CUstream s;
    CUdeviceptr x;
    uint32_t how = 0;
    char *text = gpu_text("tests/gpu/kernels90.ptx");
    WANT(text && !gpu.cuModuleUnload(gpu.kernels) && !gpu.cuModuleLoadData(&gpu.kernels, text));
    free(text);
    WANT(!gpu.cuStreamCreate(&s, 1) && !gpu.cuMemAlloc_v2(&x, 128) && !gpu.cuStreamBeginCapture_v2(s, 1));
    WANT(!gpu.cuMemsetD32Async(x, 0, 32, s));
    WANT(gpu_go_early("next", 32, s, PARAMS(&x, &x, &how)) == CUDA_ERROR_INVALID_VALUE);
    return 0;
}

static void early_kernels_are_refused_where_a_driver_would(void **state)
{
    (void)state;
    gpu_case(too_early_case, "SOFT_GPU_CAPABILITY=8.0", said, ROOM);
    gpu_case(no_kernel_case, "SOFT_GPU_CAPABILITY=9.0", said, ROOM);
}

/* ---- shared memory between threads and wgmma ---- */

static int product(uint32_t how)
{
    char *text = gpu_text("tests/gpu/kernels90.ptx");
    CUdeviceptr y;
    uint32_t out[128];
    WANT(text && !gpu.cuModuleUnload(gpu.kernels) && !gpu.cuModuleLoadData(&gpu.kernels, text));
    free(text);
    WANT(!gpu.cuMemAlloc_v2(&y, sizeof out) && !gpu_go("product", 1, 128, 0, NULL, PARAMS(&y, &how)));
    if (how) return fails(CUDA_ERROR_LAUNCH_FAILED);
    WANT(!gpu.cuMemcpyDtoH_v2(out, y, sizeof out));
    for (int i = 0; i < 128; i++) WANT(out[i] == 32);
    return 0;
}
static int fenced_case(void) { return product(0); }
static int unfenced_case(void) { return product(1); }

static void products_read_what_a_fence_followed(void **state)
{
    (void)state;
    gpu_case(fenced_case, "SOFT_GPU_CAPABILITY=9.0", said, ROOM);
    assert_string_equal(said, "");
    gpu_case(unfenced_case, "SOFT_GPU_CAPABILITY=9.0", said, ROOM);
    assert_non_null(strstr(said, "has stored and done no fence.proxy.async since"));
}

/* ---- what is not known ends the process ---- */

static int unknown_case(void)
{
    static const char head[] =
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n.reg .f32 %f<3>;\n";
    char text[512];
    CUmodule m;
    int status;
    snprintf(text, sizeof text, "%s%s\nret;\n}\n", head, getenv("LINE_OF_PTX"));
    const pid_t child = fork();
    if (!child) {
        CUfunction k;
        if (!gpu.cuModuleLoadData(&m, text) && !getenv("SOFT_GPU_WHOLE") && !gpu.cuModuleGetFunction(&k, m, "k"))
            gpu.launch(k, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
        _exit(0);
    }
    WANT(child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    return 0;
}
static void unknown_instructions_end_the_process(void **state)
{
    static const char *const lines[][2] = {
        {"ex2.approx.f32\t%f1,%f2;", "ex2.approx.f32"}, {"add.rn.ftz.f32\t%f1,%f2,%f2;", "add.rn.ftz.f32"},
        {"add.f32\t%f1,%f2;", "not so many operands"},  {"add.f32\t%f1,%f2,%f9;", "%f9"},
        {"mov.f64\t%f1,%f2;", "another width"},
    };
    (void)state;
    for (size_t i = 0; i < 2 * sizeof lines / sizeof *lines; i++) { /* at the first launch, and when it is loaded */
        const char *const *line = lines[i / 2];
        char value[100];
        snprintf(value, sizeof value, "%sLINE_OF_PTX=%s", i % 2 ? "SOFT_GPU_WHOLE=1 " : "", line[0]);
        gpu_case(unknown_case, value, said, ROOM);
        assert_non_null(strstr(said, "PTX line 7"));
        assert_non_null(strstr(said, line[1]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_checked),
        cmocka_unit_test(a_host_cannot_read_device_memory),
        cmocka_unit_test(another_devices_memory_needs_leave),
        cmocka_unit_test(threads_that_wait_for_ever_are_found),
        cmocka_unit_test(races_are_found_whatever_the_order),
        cmocka_unit_test(what_is_ordered_is_no_race),
        cmocka_unit_test(kernels_meet_if_they_have_devices_of_their_own),
        cmocka_unit_test(a_ring_waits_on_both_sides),
        cmocka_unit_test(kernels_that_begin_early_wait),
        cmocka_unit_test(early_kernels_are_refused_where_a_driver_would),
        cmocka_unit_test(products_read_what_a_fence_followed),
        cmocka_unit_test(unknown_instructions_end_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
