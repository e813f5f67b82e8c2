/* cpu.h - inside the CPU backend: the device, held weights, KV pages, and the declarations that every kernel starts
 * from.
 *
 * A kernel is called by every worker at once and takes its share of output units, never of a reduction, so results do
 * not depend on the number of workers. The file cpu_<op>.c holds the reference of an op: plain C, the definition that
 * vector kernels (kernels_<instruction set>.c) must equal in every bit. out may be the memory of in[0] for NORM and
 * ops with OPF_IN_PLACE; otherwise operands do not overlap. */
#pragma once
#include "base/json.h"
#include "base/pool.h"
#include "core/backend.h"
#include "core/fuse.h"
#include "core/vocab_scan.h"
#include "cpu/cpu_fuse.h"
#include "cpu/fetch_way.h"
#include "tensor/wire.h"

#include <stddef.h>
#include <stdint.h>

/* One stretch of a segment, of one step. */
typedef struct run {
    const segment *seg;
    const step *st;
    uint8_t *act; /* arena of the segment; activations at tensor.off */
    uint32_t stretch;
} run;

/* A kernel. All workers of the pool call it; each takes its share of output units (never of a reduction). */
typedef void (*kernel)(const run *r, const op *o, int worker, int workers);

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

/* ---- weights as held */
typedef struct held_weight {
    const uint8_t *data;  /* row n at data + n * stride; packed: panel n / 16; any alignment; NULL: not bound yet */
    dtype type;           /* vectors: DTYPE_F32 */
    uint64_t stride;      /* bytes from row to row, or from panel to panel */
    bool packed;          /* tensor/panel.h */
    int64_t rows, cols;   /* vectors: rows = n, cols = 1, contiguous */
    const uint8_t **part; /* [weight.parts] first row of each where the files do not store them in one run; else NULL */
    void *own;            /* memory to mem_unmap; NULL: used in the mapped file */
    uint64_t own_bytes;
    bool streams;            /* a vector body reads it for products with one row */
    uint8_t way[FETCH_ROWS]; /* fetch_way of one row of activations, of two */
} held_weight;

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

/* backend.weight_put: binds weight `index` of the program; nothing to do when it is there already. */
int cpu_weight_put(dev *d, uint32_t index, err *e);
int cpu_weights_end(dev *d, err *e); /* makes those that no file has as they are needed */
/* Chooses the ways in which weights are fetched, by measurement; and tells them: "q4_b64": ["far", "near"]. */
void cpu_fetch_choose(dev *d);
void cpu_fetch_tell(const dev *d, json *to);
void cpu_weight_drop(held_weight *h);

/* The run `part` of `rows` rows, as a weight of its own; packed: whole panels. */
static inline held_weight held_part(const held_weight *w, int64_t part, int64_t rows)
{
    held_weight h = *w;
    int64_t units = w->packed ? rows / 16 : rows;
    h.data = w->part ? w->part[part] : w->data + (uint64_t)(part * units) * w->stride;
    h.part = NULL;
    h.rows = rows;
    return h;
}

/* Row n as float32: cols values. */
void held_row(const held_weight *w, int64_t n, float *to);

/* ---- keys and values. Of each page a state has, per head, a tile of keys [k_dim][PAGE_TOKENS] (transposed: 16 keys
 * are one vector) and a tile of values [PAGE_TOKENS][v_dim]; tiles of codes: kv_codes.h. A page holds the tiles of all
 * states of its group, because they are read and written together; so short contexts touch little memory. */
typedef struct kv_store {
    uint8_t *k, *v;  /* of page 0; 64-byte aligned */
    uint64_t stride; /* bytes from page to page */
    dtype k_type, v_type;
    int32_t heads, k_dim, v_dim;
    uint64_t k_page, v_page; /* bytes of this state in one page */
    void *own;               /* the memory of the group's pages, if this state owns it: own_bytes */
    uint64_t own_bytes;
} kv_store;

/* The tile of one head in a page: keys, or values. */
static inline uint8_t *kv_tile(const kv_store *s, bool values, int32_t page, int64_t head)
{
    uint64_t tile = (values ? s->v_page : s->k_page) / (uint64_t)s->heads;
    return (values ? s->v : s->k) + (uint64_t)page * s->stride + (uint64_t)head * tile;
}

/* Fills types, sizes and their bytes. */
void kv_layout(kv_store *s, const state *of, dtype k_type, dtype v_type);

/* ---- states of fixed size: of each slot, the floats of every STATE_SLOT that the device's segment has. */
typedef struct slot_store {
    float *at;       /* of slot 0; 64-byte aligned */
    uint64_t stride; /* floats from slot to slot */
    void *own;       /* the memory of all of them, if this state owns it: own_bytes */
    uint64_t own_bytes;
} slot_store;

static inline float *slot_at(const slot_store *s, int32_t slot) { return s->at + (uint64_t)slot * s->stride; }

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

struct dev {
    const program *p;
    int threads, max_rows[AXIS_COUNT];
    bool share_all;
    cache_options cache;
    pool *team;
    const cpu_table *table;
    run started;               /* what wait runs; seg NULL: nothing */
    held_weight *held;         /* [p->n_weight] */
    struct weight_fill *fills; /* [n_fill] of those in memory of their own, until cpu_weights_fill */
    size_t n_fill, cap_fill;
    kv_store *kv;      /* [p->n_state] */
    slot_store *slots; /* [p->n_state] */
    cpu_work work;
};

/* ---- operands of the op being run */
static inline const tensor *arg_info(const run *r, ref t) { return &r->seg->p->tensors[t]; }
static inline int64_t arg_rows(const run *r, ref t) { return r->st->n[arg_info(r, t)->axis]; }
/* Elements of one row of an activation; all elements of a weight or constant vector. */
static inline int64_t arg_dim(const run *r, ref t)
{
    const tensor *i = arg_info(r, t);
    int64_t n = 1;
    for (int d = 0; d < i->rank; d++) n *= i->dim[d];
    return n;
}
static inline const held_weight *arg_weight(const run *r, ref t) { return &r->seg->on->held[arg_info(r, t)->weight]; }
/* Values of an activation, a constant, or a vector weight; NULL for ref 0. */
static inline float *arg_at(const run *r, ref t)
{
    if (!t) return NULL;
    const tensor *i = arg_info(r, t);
    if (i->kind == TENSOR_CONST) return (float *)i->data;
    if (i->kind == TENSOR_WEIGHT) return (float *)arg_weight(r, t)->data;
    return (float *)(r->act + i->off);
}
static inline float *arg_scratch(const run *r, int worker)
{
    const cpu_work *w = &r->seg->on->work;
    return w->scratch + (uint64_t)worker * w->scratch_floats;
}
static inline int32_t step_page(const step *st, int group, int seq, int tile)
{
    return st->page[((int64_t)group * st->n_seq + seq) * st->page_cap + tile];
}

/* The units [*from, *to) of n that a worker takes; borders are multiples of `grain`. Ops with OPF_ELEMENTWISE share
 * all elements of the output with grain LANES, on every instruction set: the backend puts no barrier between them. */
static inline void cpu_share(int64_t n, int64_t grain, int worker, int workers, int64_t *from, int64_t *to)
{
    int64_t grains = (n + grain - 1) / grain;
    int64_t a = grains * worker / workers * grain, b = grains * (worker + 1) / workers * grain;
    *from = a < n ? a : n;
    *to = b < n ? b : n;
}

/* ---- definitions shared by references */
enum { LANES = 16 }; /* partial sums of every float reduction: element i belongs to lane i mod 16 */
static inline float lanes_fold(const float a[LANES])
{
    float s[8];
    for (int i = 0; i < 8; i++) s[i] = a[i] + a[i + 8];
    for (int i = 0; i < 4; i++) s[i] = s[i] + s[i + 4];
    for (int i = 0; i < 2; i++) s[i] = s[i] + s[i + 2];
    return s[0] + s[1];
}

enum { ATTN_RANGE = 512 }; /* keys per range: ranges are reduced on their own, then merged ascending */

float cpu_dot(const float *w, const float *x, int64_t k); /* of MATMUL and its relatives: the definition */

/* The references: cpu_<op>. */
#define X(id, name, facts, doc) void cpu_##name(const run *r, const op *o, int worker, int workers);
KERNEL_LIST(X)
#undef X

/* MATMUL of packed weights with int8 activations: called by cpu_matmul. */
void cpu_qmatmul(const run *r, const op *o, int worker, int workers);

extern const cpu_table cpu_table_c;
extern const cpu_table cpu_table_avx2, cpu_table_avxvnni, cpu_table_avx512, cpu_table_avx512bf16; /* on x86-64 */
extern const cpu_table cpu_table_neon, cpu_table_dotprod;                                         /* on 64-bit Arm */

static inline kernel cpu_kernel(const cpu_table *t, int kind)
{
    return t->op[kind] ? t->op[kind] : cpu_table_c.op[kind];
}
