/* t_gpu_driver.c - the software GPU's driver: streams that run late and in any order that is allowed, events, captured
 * graphs, what may not be done while a stream is captured, failures and counts; and that it knows each instruction of
 * the kernels of this build. */
#include "base/embed.h"
#include "base/mem.h"
#include "cuda/cuda_unpack.h"
#include "gpu_rig.h"

enum { ROOM = 4096 };
static char said[ROOM];

/* A host that reads before it has waited finds old bytes; pinned memory is read when the stream comes to it. */
static int late_case(void)
{
    CUstream s;
    CUdeviceptr y;
    uint32_t *pinned, by = 1;
    WANT(!gpu.cuStreamCreate(&s, 1) && !gpu.cuMemAlloc_v2(&y, 4) && !gpu.cuMemHostAlloc((void **)&pinned, 8, 0));
    pinned[0] = 5, pinned[1] = 0;
    WANT(!gpu.cuMemcpyHtoDAsync_v2(y, pinned, 4, s) && !gpu_go("step", 1, 1, 0, s, PARAMS(&y, &by)));
    WANT(!gpu.cuMemcpyDtoHAsync_v2(pinned + 1, y, 4, s));
    WANT(pinned[1] == 0);
    pinned[0] = 6; /* too early: the copy has not run */
    by = 9;        /* of a launch the parameters were taken at the call */
    WANT(!gpu.cuStreamSynchronize(s) && pinned[1] == 19);
    return 0;
}
static void streams_run_when_they_are_waited_for(void **state) { (void)state, gpu_case(late_case, "", said, ROOM); }

/* Pageable memory is read at the call, and written before the call is back. */
static int pageable_case(void)
{
    CUstream s;
    CUdeviceptr y;
    uint32_t in = 5, out = 0;
    WANT(!gpu.cuStreamCreate(&s, 1) && !gpu.cuMemAlloc_v2(&y, 4) && !gpu.cuMemcpyHtoDAsync_v2(y, &in, 4, s));
    in = 6;
    WANT(!gpu.cuMemcpyDtoHAsync_v2(&out, y, 4, s) && out == 5);
    return 0;
}
static void pageable_memory_is_taken_at_the_call(void **state) { (void)state, gpu_case(pageable_case, "", said, ROOM); }

/* y by two streams without an event: some seeds give one order, some the other. The child tells by its exit. */
static int order_of(bool with_event, uint32_t *got)
{
    CUstream a, b;
    CUevent e;
    CUdeviceptr y;
    uint32_t one = 1, two = 2;
    WANT(!gpu.cuStreamCreate(&a, 1) && !gpu.cuStreamCreate(&b, 1) && !gpu.cuEventCreate(&e, 2));
    WANT(!gpu.cuMemAlloc_v2(&y, 4) && !gpu.cuMemsetD32_v2(y, 0, 1) && !gpu.cuCtxSynchronize());
    WANT(!gpu_go("step", 1, 1, 0, a, PARAMS(&y, &one)));
    WANT(!with_event || (!gpu.cuEventRecord(e, a) && !gpu.cuStreamWaitEvent(b, e, 0)));
    WANT(!gpu_go("step", 1, 1, 0, b, PARAMS(&y, &two)));
    WANT(!gpu.cuStreamSynchronize(a) && !gpu.cuStreamSynchronize(b));
    WANT(!gpu.cuMemcpyDtoH_v2(got, y, 4) && !gpu.cuEventDestroy_v2(e));
    return 0;
}
static int any_order_case(void)
{
    uint32_t got;
    const int bad = order_of(false, &got);
    fprintf(stderr, "%s", got == 5 ? "a" : got == 7 ? "b" : "?");
    return bad;
}
static int event_case(void)
{
    uint32_t got;
    const int bad = order_of(true, &got);
    return bad ? bad : got != 5;
}
static void streams_without_an_event_run_in_any_order(void **state)
{
    char orders[64] = "";
    (void)state;
    for (int seed = 1; seed <= 24; seed++) {
        char settings[40];
        snprintf(settings, sizeof settings, "SOFT_GPU_SEED=%d", seed);
        gpu_case(any_order_case, settings, said, ROOM);
        orders[seed - 1] = *said;
        gpu_case(event_case, settings, said, ROOM);
    }
    assert_non_null(strchr(orders, 'a'));
    assert_non_null(strchr(orders, 'b'));
    assert_null(strchr(orders, '?'));
}

/* The null stream waits for streams that do not say otherwise, and they for it. */
static int null_case(void)
{
    CUstream s;
    CUdeviceptr y;
    uint32_t one = 1, two = 2, got;
    WANT(!gpu.cuStreamCreate(&s, 0) && !gpu.cuMemAlloc_v2(&y, 4) && !gpu.cuMemsetD32_v2(y, 0, 1));
    WANT(!gpu_go("step", 1, 1, 0, s, PARAMS(&y, &one)) && !gpu_go("step", 1, 1, 0, NULL, PARAMS(&y, &two)));
    WANT(!gpu_go("step", 1, 1, 0, s, PARAMS(&y, &one)) && !gpu.cuMemcpyDtoH_v2(&got, y, 4));
    WANT(got == ((0 * 3 + 1) * 3 + 2) * 3 + 1);
    return 0;
}
static void the_null_stream_orders_blocking_streams(void **state)
{
    (void)state;
    for (int seed = 1; seed < 8; seed++) {
        char settings[40];
        snprintf(settings, sizeof settings, "SOFT_GPU_SEED=%d", seed);
        gpu_case(null_case, settings, said, ROOM);
    }
}

static int event_query_case(void)
{
    CUstream s;
    CUevent e;
    CUdeviceptr y;
    uint32_t by = 1;
    WANT(!gpu.cuStreamCreate(&s, 1) && !gpu.cuEventCreate(&e, 2) && !gpu.cuMemAlloc_v2(&y, 4) &&
         !gpu.cuMemsetD32_v2(y, 0, 1));
    WANT(!gpu.cuEventQuery(e)); /* never recorded */
    for (int i = 0; i < 8; i++) WANT(!gpu_go("step", 1, 1, 0, s, PARAMS(&y, &by)));
    WANT(!gpu.cuEventRecord(e, s) && gpu.cuEventQuery(e) == CUDA_ERROR_NOT_READY);
    int asked = 1;
    while (gpu.cuEventQuery(e) == CUDA_ERROR_NOT_READY) WANT(asked++ < 1000);
    WANT(!gpu.cuStreamQuery(s) && !gpu.cuEventSynchronize(e) && !gpu.cuEventDestroy_v2(e));
    return 0;
}
static void asking_makes_streams_go_on(void **state) { (void)state, gpu_case(event_query_case, "", said, ROOM); }

/* ---- graphs ---- */

/* Two streams joined by events, captured, replayed three times with what lies in memory then. */
static int graph_case(void)
{
    CUstream s, t;
    CUevent begun, ended;
    CUdeviceptr y, z;
    CUgraph g;
    CUgraphExec x;
    uint32_t one = 1, two = 2, got[2], *pinned;
    WANT(!gpu.cuStreamCreate(&s, 1) && !gpu.cuStreamCreate(&t, 1) && !gpu.cuEventCreate(&begun, 2) &&
         !gpu.cuEventCreate(&ended, 2));
    WANT(!gpu.cuMemAlloc_v2(&y, 4) && !gpu.cuMemAlloc_v2(&z, 4) && !gpu.cuMemHostAlloc((void **)&pinned, 4, 0));
    WANT(!gpu.cuMemsetD32_v2(y, 100, 1) && !gpu.cuMemsetD32_v2(z, 0, 1));
    WANT(!gpu.cuStreamBeginCapture_v2(s, 1) && !gpu.cuMemcpyHtoDAsync_v2(y, pinned, 4, s));
    WANT(!gpu.cuEventRecord(begun, s) && !gpu.cuStreamWaitEvent(t, begun, 0));
    WANT(!gpu_go("step", 1, 1, 0, s, PARAMS(&y, &one)) && !gpu_go("step", 1, 1, 0, t, PARAMS(&z, &one)));
    WANT(!gpu.cuEventRecord(ended, t) && !gpu.cuStreamWaitEvent(s, ended, 0));
    WANT(!gpu_go("step", 1, 1, 0, s, PARAMS(&y, &two)) && !gpu.cuStreamEndCapture(s, &g));
    WANT(!gpu.cuMemcpyDtoH_v2(got, y, 4) && got[0] == 100); /* capturing runs nothing */
    WANT(!gpu.cuGraphInstantiateWithFlags(&x, g, 0) && !gpu.cuGraphDestroy(g));
    for (uint32_t i = 0, zs = 0; i < 3; i++) {
        *pinned = 10 * i;
        WANT(!gpu.cuGraphLaunch(x, s) && !gpu.cuStreamSynchronize(s));
        zs = 3 * zs + 1;
        WANT(!gpu.cuMemcpyDtoH_v2(got, y, 4) && !gpu.cuMemcpyDtoH_v2(got + 1, z, 4));
        WANT(got[0] == (10 * i * 3 + 1) * 3 + 2 && got[1] == zs);
    }
    WANT(!gpu.cuEventQuery(ended) && !gpu.cuStreamWaitEvent(t, begun, 0)); /* as if they had never been recorded */
    WANT(!gpu.cuGraphExecDestroy(x) && !gpu.cuEventDestroy_v2(begun) && !gpu.cuEventDestroy_v2(ended));
    return 0;
}
static void captured_work_is_replayed(void **state)
{
    (void)state;
    for (int seed = 1; seed < 8; seed++) {
        char settings[40];
        snprintf(settings, sizeof settings, "SOFT_GPU_SEED=%d", seed);
        gpu_case(graph_case, settings, said, ROOM);
    }
}

static int forbidden_case(void)
{
    CUstream s;
    CUdeviceptr y;
    CUgraph g;
    void *p;
    WANT(!gpu.cuStreamCreate(&s, 1) && !gpu.cuStreamBeginCapture_v2(s, 0));
    WANT(gpu.cuMemAlloc_v2(&y, 4) == 900 && gpu.cuStreamEndCapture(s, &g) == 901);
    WANT(!gpu.cuStreamBeginCapture_v2(s, 1) && gpu.cuMemHostAlloc(&p, 4, 0) == 900 &&
         gpu.cuStreamEndCapture(s, &g) == 901);
    WANT(!gpu.cuStreamBeginCapture_v2(s, 1) && gpu.cuStreamSynchronize(s) == 900 &&
         gpu.cuStreamEndCapture(s, &g) == 901);
    WANT(!gpu.cuStreamBeginCapture_v2(s, 2) && !gpu.cuMemAlloc_v2(&y, 4) && !gpu.cuStreamEndCapture(s, &g));
    WANT(!gpu.cuGraphDestroy(g));
    return 0;
}
static void allocating_breaks_a_capture(void **state) { (void)state, gpu_case(forbidden_case, "", said, ROOM); }

static int unjoined_case(void)
{
    CUstream s, t;
    CUevent e;
    CUdeviceptr y;
    CUgraph g;
    uint32_t one = 1;
    WANT(!gpu.cuStreamCreate(&s, 1) && !gpu.cuStreamCreate(&t, 1) && !gpu.cuEventCreate(&e, 2) &&
         !gpu.cuMemAlloc_v2(&y, 4));
    WANT(!gpu.cuStreamBeginCapture_v2(s, 1) && !gpu_go("step", 1, 1, 0, s, PARAMS(&y, &one)));
    WANT(!gpu.cuEventRecord(e, s) && !gpu.cuStreamWaitEvent(t, e, 0));
    WANT(!gpu_go("step", 1, 1, 0, t, PARAMS(&y, &one)) && gpu.cuStreamEndCapture(s, &g) == 904);
    WANT(!gpu.cuEventDestroy_v2(e));
    return 0;
}
static void a_stream_that_does_not_come_back_breaks_a_capture(void **state)
{
    (void)state;
    gpu_case(unjoined_case, "", said, ROOM);
}

/* ---- memory, settings, failures, counts ---- */

static int memory_case(void)
{
    CUdeviceptr y, z;
    size_t left, all;
    int n;
    WANT(!gpu.cuDeviceGetCount(&n) && n == 2);
    WANT(!gpu.cuMemGetInfo_v2(&left, &all) && all == 8 << 20);
    const size_t before = left;
    WANT(!gpu.cuMemAlloc_v2(&y, 5 << 20) && gpu.cuMemAlloc_v2(&z, 4 << 20) == CUDA_ERROR_OUT_OF_MEMORY);
    WANT(!gpu.cuMemGetInfo_v2(&left, &all) && left == before - (5 << 20));
    WANT(!gpu.cuMemFree_v2(y) && gpu.cuMemFree_v2(y) == CUDA_ERROR_INVALID_VALUE && !gpu.cuMemAlloc_v2(&z, 7 << 20));
    return 0;
}
static void a_device_has_so_much_memory(void **state)
{
    (void)state;
    gpu_case(memory_case, "SOFT_GPU_MEMORY=8 SOFT_GPU_DEVICES=2", said, ROOM);
}

static int image_case(void)
{
    CUmodule m;
    CUfunction f;
    static const char newer[] = ".version 8.0\n.target sm_90\n.address_size 64\n";
    WANT(gpu.cuModuleLoadData(&m, "\177ELF and more") == CUDA_ERROR_NO_BINARY_FOR_GPU);
    WANT(gpu.cuModuleLoadData(&m, newer) == CUDA_ERROR_INVALID_PTX);
    WANT(gpu.cuModuleGetFunction(&f, gpu.kernels, "nobody") == CUDA_ERROR_NOT_FOUND);
    WANT(gpu.cuModuleGetFunction(&f, gpu.kernels, "twice") == CUDA_ERROR_NOT_FOUND);
    WANT(!gpu.cuModuleUnload(gpu.kernels));
    return 0;
}
static void images_are_ptx_of_its_capability(void **state) { (void)state, gpu_case(image_case, "", said, ROOM); }

#ifdef HAVE_CUDA
/* Every kernel of the embedded images, whether a test launches it or not. */
static int whole_case(void)
{
    int images = 0;
    for (const embedded_file *f = embedded_files; f->name; f++) {
        char *image;
        CUmodule m;
        if (!strstr(f->name, ".ptx")) continue;
        WANT(cuda_unpack(span_of(f->p, f->n), &image, NULL) == OK);
        WANT(!gpu.cuModuleLoadData(&m, image) && !gpu.cuModuleUnload(m));
        mem_free(image);
        images++;
    }
    WANT(images >= 5);
    return 0;
}
static void all_kernels_are_known(void **state)
{
    (void)state, gpu_case(whole_case, "SOFT_GPU_WHOLE=1 SOFT_GPU_CAPABILITY=9.0", said, ROOM);
}
#endif

static int launch_case(void)
{
    WANT(gpu_go("half", 1, 1025, 0, NULL, NULL) == CUDA_ERROR_INVALID_VALUE);
    WANT(gpu_go("half", 0, 32, 0, NULL, NULL) == CUDA_ERROR_INVALID_VALUE);
    WANT(gpu_go("half", 1, 32, 49153, NULL, NULL) == CUDA_ERROR_INVALID_VALUE);
    return gpu.cuCtxSynchronize();
}
static void launches_are_checked(void **state) { (void)state, gpu_case(launch_case, "", said, ROOM); }

static int fail_case(void)
{
    CUdeviceptr y;
    WANT(!gpu.cuMemAlloc_v2(&y, 4) && gpu.cuMemAlloc_v2(&y, 4) == CUDA_ERROR_OUT_OF_MEMORY &&
         !gpu.cuMemAlloc_v2(&y, 4));
    return gpu.cuCtxSynchronize();
}
static int fail_any_case(void)
{
    int n;
    WANT(gpu.cuDeviceGetCount(&n) == CUDA_ERROR_UNKNOWN && !gpu.cuDeviceGetCount(&n));
    return 0;
}
static void the_call_that_is_named_fails(void **state)
{
    (void)state;
    gpu_case(fail_case, "SOFT_GPU_FAIL=cuMemAlloc:2", said, ROOM);
    assert_non_null(strstr(said, "cuMemAlloc fails, as SOFT_GPU_FAIL asks for"));
    gpu_case(fail_any_case, "SOFT_GPU_FAIL=6", said, ROOM); /* opening makes five */
}

/* A kernel reads and writes pinned memory, late as all its work, and finds its bounds. */
static int pinned_case(void)
{
    CUdeviceptr at;
    uint32_t *pinned, by = 1;
    WANT(!gpu.cuMemHostAlloc((void **)&pinned, 4, 2) && !gpu.cuMemHostGetDevicePointer_v2(&at, pinned, 0));
    *pinned = 5;
    WANT(!gpu_go("step", 1, 1, 0, NULL, PARAMS(&at, &by)) && *pinned == 5);
    WANT(!gpu.cuCtxSynchronize() && *pinned == 16);
    at += 4;
    WANT(!gpu_go("step", 1, 1, 0, NULL, PARAMS(&at, &by)) && gpu.cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
    return 0;
}
static void kernels_reach_pinned_memory(void **state)
{
    (void)state;
    gpu_case(pinned_case, "", said, ROOM);
    assert_non_null(strstr(said, "0 bytes behind the 4 at"));
}

static int counts_case(void)
{
    CUdeviceptr y;
    uint32_t got[2] = {1, 2}, by = 1;
    WANT(!gpu.cuMemAlloc_v2(&y, 8) && !gpu.cuMemcpyHtoD_v2(y, got, 8) &&
         !gpu_go("step", 1, 1, 0, NULL, PARAMS(&y, &by)));
    WANT(!gpu.cuMemcpyDtoH_v2(got, y, 4));
    return 0;
}
static void work_is_counted(void **state)
{
    char settings[300], path[200];
    (void)state;
    snprintf(path, sizeof path, "%s", temp_path("gpu-counts"));
    snprintf(settings, sizeof settings, "SOFT_GPU_COUNT=%s", path);
    gpu_case(counts_case, settings, said, ROOM);
    char *text = gpu_text(path);
    assert_non_null(text);
    assert_non_null(
        strstr(text, "\"launches\": 1, \"kernels\": 1, \"early\": 0, \"graph_launches\": 0, \"graphs\": 0"));
    assert_non_null(strstr(text, "\"copies_to_device\": 1"));
    assert_non_null(strstr(text, "\"bytes_to_device\": 8, \"copies_to_host\": 1, \"bytes_to_host\": 4"));
    assert_non_null(strstr(text, "\"allocations\": 1, \"bytes_allocated\": 8"));
    free(text);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_run_when_they_are_waited_for),
        cmocka_unit_test(pageable_memory_is_taken_at_the_call),
        cmocka_unit_test(streams_without_an_event_run_in_any_order),
        cmocka_unit_test(the_null_stream_orders_blocking_streams),
        cmocka_unit_test(asking_makes_streams_go_on),
        cmocka_unit_test(captured_work_is_replayed),
        cmocka_unit_test(allocating_breaks_a_capture),
        cmocka_unit_test(a_stream_that_does_not_come_back_breaks_a_capture),
        cmocka_unit_test(a_device_has_so_much_memory),
        cmocka_unit_test(images_are_ptx_of_its_capability),
#ifdef HAVE_CUDA
        cmocka_unit_test(all_kernels_are_known),
#endif
        cmocka_unit_test(launches_are_checked),
        cmocka_unit_test(the_call_that_is_named_fails),
        cmocka_unit_test(kernels_reach_pinned_memory),
        cmocka_unit_test(work_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
