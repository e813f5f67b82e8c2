/* t_cuda_loading.c - a model of 150 MB on its way to a CUDA device (a program here, tests/gpu): the host gives little
 * memory besides the mapped file, the embedding table, which stays in pinned memory of the host, and the device, whose
 * memory is this process's here. */
#include "base/json.h"
#include "command.h"
#include "cuda_rig.h"

#include <sys/stat.h>

enum { MOST = 256 << 10 }; /* KiB */
enum { VOCAB = 16000, DIM = 1024 };

/* Types of weights, and the KiB of an embedding table in them (q4_b64: 4 bits, and a scale and a base of 16). */
static const struct kind {
    const char *weights;
    long table;
} kinds[] = {{"f16", (VOCAB * DIM * 16L / 8) >> 10},
             {"f32", (VOCAB * DIM * 32L / 8) >> 10},
             {"q4_b64", (VOCAB * DIM / 2 * 9L / 8) >> 10}};

static char work[256];

/* Memory of a process that is no file's, in KiB; -1: it has ended. */
static long memory_of(pid_t pid)
{
    char path[64], line[256];
    long kib = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) sscanf(line, "RssAnon: %ld", &kib);
    if (f) fclose(f);
    return kib;
}

/* The most memory that loading takes besides the device's and the table's, in KiB. */
static long most_memory(const struct kind *kind)
{
    char binary[4096], gpu[4096], folder[1024], count[300];
    err e = {0};
    json *counts;
    int rc;
    gpu_folder(folder);
    assert_true(realpath(command_binary(), binary) && realpath(folder, gpu));
    snprintf(count, sizeof count, "%s/count", work);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        setenv("LD_LIBRARY_PATH", gpu, 1);
        setenv("SOFT_GPU_COUNT", count, 1);
        setenv("SOFT_GPU_FAIL", "cuLaunchKernel:1", 1); /* all is there then */
        if (chdir(work)) _exit(126);
        execl(binary, binary, "run", "-m", "model", "--ids", "1", "-n", "1", "--output", "ids", "--devices", "cuda:0",
              "--ctx", "128", "--weights", kind->weights, (char *)NULL);
        _exit(127);
    }
    long most = 0;
    while (waitpid(pid, &rc, WNOHANG) == 0) {
        const long now = memory_of(pid);
        most = now > most ? now : most;
        usleep(1000);
    }
    assert_true(WIFEXITED(rc) && WEXITSTATUS(rc) == 1);
    assert_ok(json_read(&counts, count, 1 << 16, &e), &e);
    const long device = (long)(json_int(json_get(counts, "bytes_allocated"), 0) >> 10);
    json_free(counts);
    assert_true(device > 40 << 10 && most > device / 2);
    printf("weights %s: %ld MiB, of which %ld are the device's and %ld the embedding table's\n", kind->weights,
           most >> 10, device >> 10, kind->table >> 10);
    return most - device - kind->table;
}

static void host_memory_of_loading(void **unused)
{
    (void)unused;
    for (int i = 0; i < 3; i++) assert_true(most_memory(&kinds[i]) < MOST);
}

static int make_model(void **unused)
{
    (void)unused;
    char line[1400];
    snprintf(work, sizeof work, "%s", temp_path("loading"));
    snprintf(
        line, sizeof line,
        "mkdir -p %s && cc -O2 -Isrc -o %s/make_llama tools/make_llama.c && %s/make_llama %s/model layers=4 dim=%d "
        "heads=16 kv_heads=4 ffn=2816 vocab=%d >/dev/null",
        work, work, work, work, DIM, VOCAB);
    return system(line);
}

static int remove_model(void **unused)
{
    (void)unused;
    char line[300];
    snprintf(line, sizeof line, "rm -rf %s", work);
    return system(line);
}

int main(void)
{
    if (!cuda_rig_open()) return 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(host_memory_of_loading)};
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
