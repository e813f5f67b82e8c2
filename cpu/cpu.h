/* cpu.h - inside the CPU backend: weights, the device, its kernel tables and their working memory. What a kernel is
 * given and must equal: ops/run.h. */
#pragma once
#include "base/json.h"
#include "base/pool.h"
#include "core/backend.h"
#include "core/fuse.h"
#include "core/vocab_scan.h"
#include "cpu/cpu_fuse.h"
#include "cpu/fetch_way.h"
#include "ops/run.h"
#include "tensor/wire.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* ---- instruction sets */

/* Instruction sets, as the Makefile compiles for them. */
enum {
    CPU_AVX2 = 1,    /* and FMA, F16C */
    CPU_AVX512 = 2,  /* F, BW, DQ, VL, VNNI, VBMI */
    CPU_AVXVNNI = 4, /* the multiplier of bytes on 256 bits */
    CPU_NEON = 8,
    CPU_DOTPROD = 16,   /* NEON's multiplier of bytes in groups of four */
    CPU_AVX512BF16 = 32 /* dot products of bfloat16 on 512 bits */
};
/* Allowed by the processor and the operating system. Found once: in a virtual machine CPUID takes 20 us and more. */
unsigned cpu_features(void);
const char *cpu_model(void); /* "AMD EPYC 9R14", static; "unknown" */

/* Loops for cpu_probe.h: read bytes; multiply and add, returning the operations done. */
typedef struct cpu_probes {
    void (*read)(const uint8_t *from, uint64_t bytes, int streams, int ahead);
    uint64_t (*multiply)(uint64_t rounds);
    uint64_t (*multiply_int8)(uint64_t rounds); /* NULL ok */
} cpu_probes;
void cpu_probe_read_c(const uint8_t *from, uint64_t bytes, int streams, int ahead);
uint64_t cpu_probe_multiply_c(uint64_t rounds);

/* The kernels of one instruction set. */
typedef struct cpu_table {
    const char *isa;          /* "c", "avx2", "avxvnni", "avx512", "avx512bf16", "neon", "dotprod" */
    unsigned needs;           /* CPU_* */
    bool inexact;             /* --exact off: products of floats round as in v_step.h, not as in their definition */
    kernel op[OP_COUNT];      /* NULL: the reference, where a body over lanes would gain nothing; COLL has none */
    kernel fused[FUSE_COUNT]; /* called with the first op of the run; NULL: op by op */
    cpu_probes probe;
    const wire_ops *wire;
    const scan_ops *scan;
    /* One row, or up to stream_rows of packed weights, times all of w, by w->way; x: zeros, as many as the rows take
     * (act_row_bytes; floats in whole steps). NULL: no body streams. */
    void (*stream)(const held_weight *w, int64_t rows, void *x, float *y);
    int stream_rows;
} cpu_table;
/* The best table that `flags` allow; inexact: tables with `inexact` too. */
const cpu_table *cpu_kernels(unsigned flags, bool inexact);
const cpu_table *cpu_kernels_named(const char *name); /* NULL when unknown, not built, or this processor lacks it */
extern const cpu_table *const cpu_tables[];           /* all that are built, best first; the last is "c", then NULL */

/* Binds weight `index` of the program. */
int cpu_weight_put(weight_set *s, uint32_t index, err *e);
int cpu_weights_read(weight_set *s, err *e); /* makes those that no file has as they are needed */
uint64_t cpu_weight_bytes(const weight_set *s);
/* Chooses the ways in which weights are fetched, by measurement; and tells them: "q4_b64": ["far", "near"]. */
void cpu_fetch_choose(weight_set *s);
void cpu_fetch_tell(const weight_set *s, json *to);
void cpu_weight_drop(held_weight *h);

/* ---- working memory of the kernels */
typedef struct chunk_run chunk_run; /* chunk_steal.h */
typedef struct cpu_work {
    chunk_run *runs; /* [workers] */
    chunk_run *solo; /* of steps that one worker runs alone */
    float *scratch;  /* per worker: [workers][scratch_floats] */
    float *shared;   /* partial results that workers merge after a barrier */
    uint64_t scratch_floats, shared_floats, bytes;
} cpu_work;
int cpu_work_open(cpu_work *w, const program *p, const int max_rows[AXIS_COUNT], const cache_options *cache,
                  int workers, err *e);
void cpu_work_close(cpu_work *w);

/* One stretch of one step. */
typedef struct cpu_run {
    run r;
    const segment *seg;
    uint32_t stretch;
} cpu_run;

/* Devices over one set have steps one after the other, in the order in which they ask: each gets all threads. */
struct weight_set {
    const program *p;
    int threads;
    bool share_all, asked_inexact; /* asked: and no table by name */
    pool *team;
    pthread_mutex_t lock; /* of the turns: */
    pthread_cond_t changed;
    uint64_t asked, served;
    const cpu_table *table;
    held_weight *held;         /* [p->n_weight] */
    struct weight_fill *fills; /* [n_fill] of those in memory of their own, until cpu_weights_read */
    size_t n_fill, cap_fill;
};

struct dev {
    weight_set *w;
    const program *p;
    int max_rows[AXIS_COUNT];
    cache_options cache;
    cpu_run started;                      /* what wait does; seg NULL: nothing */
    kv_store *kv;                         /* [p->n_state] */
    slot_store *slots;                    /* [p->n_state] */
    void *pages[GROUP_MAX], *slot_memory; /* the memory of both */
    uint64_t pages_bytes[GROUP_MAX], slot_bytes;
    cpu_work work;
};

/* What kernels are given of the device for a step. */
static inline run cpu_run_of(dev *d, const program *p, const step *st, uint8_t *act)
{
    return (run){p, st, act, d->w->held, d->kv, d->slots, d->work.scratch, d->work.scratch_floats, d};
}

extern const cpu_table cpu_table_c;
extern const cpu_table cpu_table_avx2, cpu_table_avxvnni, cpu_table_avx512, cpu_table_avx512bf16; /* on x86-64 */
extern const cpu_table cpu_table_neon, cpu_table_dotprod;                                         /* on 64-bit Arm */

static inline kernel cpu_kernel(const cpu_table *t, int kind)
{
    return t->op[kind] ? t->op[kind] : cpu_table_c.op[kind];
}
