/* cpu_probe.c - see cpu_probe.h. Loops of one instruction set are in v_probe.h; plain C here. */
#include "cpu/cpu_probe.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cpu/cpu.h"

#include <stdio.h>
#include <string.h>

/* All threads read at most eight times the third-level cache, whose KiB are taken as CACHE_MIN to CACHE_MAX. */
enum { ROUNDS = 200000, READ_MIN = 256 << 10, READ_PER_CACHE = 8, CACHE_MIN = 32 << 10, CACHE_MAX = 64 << 10 };

typedef struct pattern {
    const char *name;
    int streams, ahead;
    double best;
} pattern;

static const pattern patterns[] = {
    {"1 stream", 1, 0, 0},  {"1 stream, 4 KiB ahead", 1, 4096, 0},
    {"2 streams", 2, 0, 0}, {"2 streams, 4 KiB ahead", 2, 4096, 0},
    {"4 streams", 4, 0, 0},
};
enum { PATTERNS = sizeof patterns / sizeof *patterns };

struct cpu_probe {
    pool *workers;
    const cpu_table *table;
    uint8_t *memory;
    uint64_t bytes;
    pattern tried[PATTERNS], *now;
    double best_float, best_integer;
    uint64_t (*multiply)(uint64_t rounds);
    uint64_t done[1024];
};

static void fill_share(void *arg, int worker, int workers)
{
    cpu_probe *p = arg;
    uint64_t each = p->bytes / (uint64_t)workers;
    memset(p->memory + each * (uint64_t)worker, worker + 1, each);
}

static void read_share(void *arg, int worker, int workers)
{
    cpu_probe *p = arg;
    uint64_t each = p->bytes / (uint64_t)workers / 4096 * 4096;
    p->table->probe.read(p->memory + each * (uint64_t)worker, each, p->now->streams, p->now->ahead);
}

static void multiply_share(void *arg, int worker, int workers)
{
    (void)workers;
    cpu_probe *p = arg;
    p->done[worker] = p->multiply(ROUNDS);
}

static uint64_t read_max(void)
{
    FILE *f = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "re");
    int kib = 0;
    if (f && fscanf(f, "%9dK", &kib) != 1) kib = 0;
    if (f) fclose(f);
    kib = kib < CACHE_MIN ? CACHE_MIN : kib > CACHE_MAX ? CACHE_MAX : kib;
    return (uint64_t)kib * 1024 * READ_PER_CACHE;
}

int cpu_probe_open(cpu_probe **out, int threads, const char *isa, uint64_t bytes, err *e)
{
    *out = NULL;
    cpu_probe *p = mem_zero(1, sizeof *p);
    if (!p) return err_memory(e, "a measurement");
    const uint64_t min = (uint64_t)threads * READ_MIN, max = read_max();
    p->bytes = !bytes || bytes > max ? max : bytes < min ? min : bytes;
    memcpy(p->tried, patterns, sizeof patterns);
    p->table = isa ? cpu_kernels_named(isa) : cpu_kernels(cpu_features(), false);
    int rc = p->table ? 0 : err_set(e, ERR_USAGE, "no kernels for \"%s\" on this machine", isa);
    if (!rc) rc = pool_open(&p->workers, threads, e);
    if (!rc && !(p->memory = mem_map(p->bytes))) rc = err_memory(e, "a measurement");
    if (rc) {
        cpu_probe_close(p);
        return rc;
    }
    pool_run(p->workers, fill_share, p);
    *out = p;
    return 0;
}

void cpu_probe_close(cpu_probe *p)
{
    if (!p) return;
    pool_close(p->workers);
    mem_unmap(p->memory, p->bytes);
    mem_free(p);
}

double cpu_probe_read(cpu_probe *p)
{
    double best = 0;
    uint64_t n = (uint64_t)pool_workers(p->workers), read = p->bytes / n / 4096 * 4096 * n;
    for (int i = 0; i < PATTERNS; i++) {
        p->now = &p->tried[i];
        double t0 = clock_now();
        pool_run(p->workers, read_share, p);
        double rate = (double)read / (clock_now() - t0);
        if (rate > p->now->best) p->now->best = rate;
        if (p->now->best > best) best = p->now->best;
    }
    return best;
}

static double multiply(cpu_probe *p, uint64_t (*fn)(uint64_t), double *best)
{
    if (!fn) return 0;
    p->multiply = fn;
    double t0 = clock_now(), sum = 0;
    pool_run(p->workers, multiply_share, p);
    double t = clock_now() - t0;
    for (int i = 0; i < pool_workers(p->workers); i++) sum += (double)p->done[i];
    if (sum / t > *best) *best = sum / t;
    return *best;
}

uint64_t cpu_probe_bytes(const cpu_probe *p) { return p ? p->bytes : 0; }

double cpu_probe_float(cpu_probe *p) { return multiply(p, p->table->probe.multiply, &p->best_float); }
double cpu_probe_integer(cpu_probe *p) { return multiply(p, p->table->probe.multiply_int8, &p->best_integer); }
int cpu_probe_patterns(const cpu_probe *p) { return p ? PATTERNS : 0; }

const char *cpu_probe_pattern(const cpu_probe *p, int i, double *bytes_per_s)
{
    *bytes_per_s = p->tried[i].best;
    return p->tried[i].name;
}

/* ---- plain C */

static _Thread_local volatile uint64_t sink;
static _Thread_local volatile float float_sink;

void cpu_probe_read_c(const uint8_t *from, uint64_t bytes, int streams, int ahead)
{
    (void)ahead;
    uint64_t each = bytes / (uint64_t)streams / 64 * 64, s[8] = {0};
    for (uint64_t i = 0; i < each; i += 64)
        for (int k = 0; k < streams; k++) {
            uint64_t line[8];
            memcpy(line, from + (uint64_t)k * each + i, 64);
            for (int j = 0; j < 8; j++) s[j] ^= line[j];
        }
    sink = s[0] ^ s[1] ^ s[2] ^ s[3] ^ s[4] ^ s[5] ^ s[6] ^ s[7];
}

uint64_t cpu_probe_multiply_c(uint64_t rounds)
{
    float a[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (uint64_t i = 0; i < rounds; i++)
        for (int k = 0; k < 8; k++) a[k] = a[k] * 0.9999f + 1e-4f;
    for (int k = 0; k < 8; k++) float_sink = a[k];
    return rounds * 16;
}
