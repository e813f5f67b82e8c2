/* cuda_state.h - inside the CUDA backend: weights, a device over them, and a compiled segment. Device memory holds the
 * structs of src/ops and src/core as they are, with device addresses in place of pointers, so that definitions.cu reads
 * them as the CPU does. */
#pragma once
#include "core/backend.h"
#include "cuda/blas.h"
#include "cuda/cuda_driver.h"
#include "ops/run.h"
#include "tensor/panel.h"

#include <stdbool.h>

struct qdecode_args; /* cuda_args.h */
struct fmat_args;

/* Kernels besides those of ops: X(name), in definitions.cu; in fast.cu. */
#define CUDA_MOVE_LIST(X) X(move_in) X(move_out) X(columns_in)
#define CUDA_RECUR_LIST(X)                                                                                             \
    X(recur_16)                                                                                                        \
    X(recur_32)                                                                                                        \
    X(recur_64)                                                                                                        \
    X(recur_128)                                                                                                       \
    X(recur_alone_16)                                                                                                  \
    X(recur_alone_32) X(recur_alone_64) X(recur_alone_128)
#define CUDA_FAST_LIST(X)                                                                                              \
    X(rows)                                                                                                            \
    X(heads)                                                                                                           \
    X(route)                                                                                                           \
    X(attn_f32)                                                                                                        \
    X(attn_f16)                                                                                                        \
    X(attn_i16)                                                                                                        \
    X(attn_q8)                                                                                                         \
    X(attn_q4)                                                                                                         \
    X(attn_few_f32)                                                                                                    \
    X(attn_few_f16) X(attn_few_i16) X(attn_few_q8) X(attn_few_q4) X(pick) X(embed) X(pages) X(conv) CUDA_RECUR_LIST(X)
/* In wide.cu, which is loaded where cuBLAS is used. */
#define CUDA_WIDE_LIST(X) X(wide_rows) X(wide_end)
/* Of those of matrices there are two: for one row of activations, and for up to CUDA_FAST_ROWS. */
enum { CUDA_FAST_ROWS = 8, CUDA_FAST_WAYS = 2, CUDA_FLOATS = 3 };

typedef struct cuda_kernels {
    cu_function op[OP_COUNT];                      /* definitions */
    cu_function qdecode[PANEL_KINDS][3];           /* packed weights: of 1, 8, 32 rows */
    cu_function qprefill[PANEL_KINDS];             /* of many rows */
    cu_function qwgmma[PANEL_KINDS];               /* the same by warpgroups; NULL: not on this device, or no kernel */
    cu_function wide[PANEL_KINDS];                 /* packed weights as bfloat16, with blas */
    cu_function fmat[CUDA_FLOATS][CUDA_FAST_WAYS]; /* float32, float16, bfloat16 */
    int processors, shared_optin; /* multiprocessors of the device; bytes of shared memory that a block can have */
#define X(name) cu_function name;
    CUDA_MOVE_LIST(X)
    CUDA_FAST_LIST(X)
    CUDA_WIDE_LIST(X)
#undef X
} cuda_kernels;

/* Memory of the device, and memory of the host that mirrors it and that the device can copy from. */
typedef struct cuda_block {
    cu_address at;
    uint8_t *host;
    uint64_t bytes;
} cuda_block;

/* Pinned memory of the host that kernels reach over the bus. */
typedef struct cuda_pinned {
    uint8_t *host;
    cu_address at; /* what kernels call it */
    uint64_t bytes;
} cuda_pinned;

enum { CUDA_VARIANTS = 64 }; /* of a rope table at most: core/rope.c */

typedef struct cuda_rope {
    uint32_t serial; /* rope_serial of the table that is there; 0: none */
    cu_address at;
    uint64_t bytes;
} cuda_rope;

/* A stream of work for a device of the driver, with all memory that its owner has taken. */
typedef struct cuda_queue {
    const cuda_driver *cu;
    int device, capability; /* capability: 80 for 8.0 */
    cu_context context;
    cu_stream stream;
    bool may_depend; /* the driver and the device know kernels that begin before the last one has ended, */
    bool follows;    /* and the last piece of work of the stream is a kernel */
    uint64_t held;   /* bytes taken of the device */
    uint64_t hosted; /* and of the host, as cuda_pinned */
    bool bad;        /* a call has failed: the device may be lost */
    double timeout;  /* seconds for work of CUDA_TIMEOUT_ROWS rows */
    int64_t rows;    /* of the work that is under way */
} cuda_queue;

/* Seconds that a device may take for a stretch of so many rows or fewer, longer ones in proportion; then it hangs. A
 * slow card, of 5 TFLOP/s, with the largest memory there is takes some 100 s for 512 rows. */
enum { CUDA_TIMEOUT = 600, CUDA_TIMEOUT_ROWS = 512 };

typedef struct cuda_weights {
    cuda_queue q; /* of weights on their way */
    const program *p;
    int ordinal;
    char isa[32];
    const blas_calls *blas;                            /* --exact off: products of many rows; NULL: not */
    char note[256];                                    /* backend.exact_note; "": nothing */
    cu_module definitions, fast, prefill, wgmma, wide; /* wgmma: of capability 9.0; wide: with blas */
    cuda_kernels kernels;
    bool *wanted;       /* [n_weight] */
    held_weight *helds; /* [n_weight] addresses are the device's */
    cu_address weights;
    cuda_pinned tables; /* weights that EMBED alone reads, a row at a time */
} cuda_weights;

/* What products by cuBLAS take: memory in one piece, and addresses in it. */
typedef struct cuda_wide {
    blas_handle *handle; /* NULL: there are none */
    cu_address memory, x, scale, strip;
    bool due; /* the step has so many rows: no graph of rounded numbers stands for it */
} cuda_wide;

/* The pages of a group: of the last states in memory of the host (cache_options.host). */
typedef struct cuda_pages {
    cu_address at;
    cuda_pinned host;
    uint64_t bytes, host_bytes; /* of a page, here and there */
} cuda_pages;

enum { CUDA_TURNS = 16384 };

typedef struct cuda_device {
    cuda_queue q;
    cuda_wide wide;
    const cuda_weights *w;
    const program *p;
    cache_options cache;
    cuda_block stage; /* rows on their way in and out */

    kv_store *kv;      /* [n_state] addresses are the device's */
    slot_store *slots; /* [n_state] likewise */
    cuda_rope *ropes;  /* [n_rope][CUDA_VARIANTS] */
    cuda_pages pages[GROUP_MAX];
    cu_address slot_memory, scratch;
    cu_address turns;     /* [CUDA_TURNS] counters of blocks that wait for each other's results; 0 between launches */
    uint64_t activations; /* bytes of q.held: arenas of segments */
    uint64_t scratch_floats;
    int scratch_workers, max_rows[AXIS_COUNT];
    cu_address program, rope_variants; /* the program, and its rope variants, on the device */
    cu_address constants, *constant;   /* of the program, one after another; [n_tensor] of each */
} cuda_device;

/* A stretch as it was started before. */
typedef struct cuda_graph {
    uint32_t stretch;
    int32_t n[AXIS_COUNT]; /* for how many rows of each axis at most */
    cu_address step;       /* where the step was */
    int32_t picks;
    uint64_t uses, last; /* 0: an empty entry; turn of the last use */
    cu_graph_exec exec;  /* NULL: not captured yet */
} cuda_graph;
enum { CUDA_GRAPHS = 16 };

/* Ops that one launch does: n of them from `first` on. */
/* One op, or matrices of one input; a run on rows; heads; ROUTE with DISPATCH; what ends with codes (cuda_codes.h). */
enum { CUDA_OP, CUDA_ROWS, CUDA_HEADS, CUDA_ROUTE, CUDA_CODES };
enum { CUDA_SIBLINGS = 4 };
typedef struct cuda_ops {
    uint32_t first;
    uint8_t n, way;
    const bool *kept; /* [n_op] whether the result is written; NULL: it is */
} cuda_ops;

/* A segment on the device. */
typedef struct cuda_segment {
    const segment *of;
    cu_address act, run;   /* the arena; the struct run */
    cuda_block step;       /* the struct step and its arrays */
    cuda_block pages;      /* the page tables; on the host what the device has of them */
    int32_t tables[2];     /* for how many sequences they are laid out, 0: not at all; and entries of each */
    cuda_block best;       /* the best logits of rows of `best_of` */
    ref best_of;           /* 0: the segment has no logits */
    int32_t picks;         /* best logits that the last stretch of the step brings to the host */
    const int32_t *wanted; /* [OUT] how many of each row, in the host's copy of the step */
    cuda_ops *launches;    /* [n_launch] of all stretches */
    bool *kept;            /* [n_op] */
    uint32_t n_launch;
    cuda_graph graphs[CUDA_GRAPHS];
    uint64_t turn;
} cuda_segment;

/* Where the number of rows of the step is, on the device. */
static inline const int32_t *cuda_live(const cuda_segment *s, int axis)
{
    return (const int32_t *)(uintptr_t)(s->step.at + offsetof(step, n) + (uint64_t)axis * sizeof(int32_t));
}

/* The struct behind a dev; it is made current for the thread. */
cuda_device *cuda_device_of(dev *d);
static inline const cuda_device *cuda_device_at(const dev *d) { return (const cuda_device *)(const void *)d; }

/* 80 for 8.0. Returns a code of the driver's. */
int cuda_find_capability(const cuda_driver *cu, int device, int *capability);
/* A stream in the context of the driver's device `ordinal`. Devices over one set of weights share the context, and each
 * has a stream: kernels of several devices may run at once. After an error too: cuda_queue_close. */
int cuda_queue_open(cuda_queue *q, const cuda_driver *cu, int ordinal, err *e);
void cuda_queue_close(cuda_queue *q);
/* A call of the driver. The first that fails makes the queue bad: later ones are not made, and fail. */
int cuda_done(cuda_queue *q, int code, const char *what, err *e);
/* Memory of the device, counted in `held`; ERR_MEMORY names `what`. 0 bytes give one. */
int cuda_take(cuda_queue *q, uint64_t bytes, const char *what, cu_address *at, err *e);
void cuda_give(cuda_queue *q, cu_address *at, uint64_t bytes);
/* Pinned memory, counted in `hosted`; ERR_MEMORY: the machine has not so much left for `what`. 0 bytes give none. */
int cuda_pin(cuda_queue *q, uint64_t bytes, const char *what, cuda_pinned *to, err *e);
void cuda_unpin(cuda_queue *q, cuda_pinned *p);
void cuda_free_host(const cuda_queue *q, void *memory); /* of cuMemHostAlloc; NULL ok */
/* Gives a block `bytes` bytes at least. A block that grows loses its contents. */
int cuda_block_grow(cuda_queue *q, cuda_block *b, uint64_t bytes, const char *what, err *e);
void cuda_block_free(cuda_queue *q, cuda_block *b);
/* Copies, ordered with kernels; `from` may be reused at once. cuda_wait: until all that was asked for is done. */
int cuda_send(cuda_queue *q, cu_address to, const void *from, uint64_t bytes, err *e);
int cuda_fetch(cuda_queue *q, void *to, cu_address from, uint64_t bytes, err *e); /* and waits */
/* To memory of this device, from memory of a device with that context: without the host, whichever they are. */
int cuda_copy(cuda_queue *q, cu_address to, cu_context context, cu_address from, uint64_t bytes, err *e);
int cuda_wait(cuda_queue *q, err *e);
/* Whether a device of the driver has not ended its work in time: then nothing asks the driver for it any more. */
bool cuda_hangs(int device);
void cuda_hang(cuda_queue *q);   /* it is so from now on */
bool cuda_is_lost(const dev *d); /* backend.is_lost */
/* The rows of a step that is about to be waited for. */
static inline void cuda_note_rows(cuda_queue *q, const step *st)
{
    q->rows = st->n[AXIS_TOK] > st->n[AXIS_ENC] ? st->n[AXIS_TOK] : st->n[AXIS_ENC];
}
/* Where the next thing begins in memory in which things lie one after another. */
static inline uint64_t cuda_aligned(uint64_t n) { return (n + 255) / 256 * 256; }
/* The image of cuda/NAME.cu that suits the device best (cuda_image.c). */
int cuda_load_image(cuda_queue *q, const char *name, cu_module *to, err *e);
bool cuda_has_image(int capability); /* whether kernels run on such a device */
int cuda_find(cuda_queue *q, cu_module image, const char *name, cu_function *to, err *e); /* a kernel of an image */
/* Starts a kernel of `threads` threads at least, in blocks of `block`. */
int cuda_launch(cuda_queue *q, cu_function f, int64_t threads, int block, void **parameters, err *e);
/* The same in a grid of two axes, with dynamic shared memory. */
typedef struct cuda_grid {
    int64_t x, y;
    int block;
    uint64_t shared_bytes;
} cuda_grid;
int cuda_launch_grid(cuda_queue *q, cu_function f, cuda_grid g, void **parameters, err *e);
/* The same for a kernel of fast.cu, which waits by itself for the kernel before (dependent.cuh). */
int cuda_launch_fast(cuda_queue *q, cu_function f, cuda_grid g, void **parameters, err *e);
/* The stream, for work that is no kernel started by these. */
static inline cu_stream cuda_stream_of(cuda_queue *q)
{
    q->follows = false;
    return q->stream;
}

/* cuda_graph.c: starts a stretch by `launch`, which starts its kernels one by one, or as it did before. The step that
 * `launch` is given has rounded numbers of rows: kernels read the true ones on the device. */
typedef int cuda_launches(cuda_device *d, cuda_segment *s, uint32_t stretch, const step *st, err *e);
int cuda_graph_start(cuda_device *d, cuda_segment *s, uint32_t stretch, const step *st, cuda_launches *launch, err *e);
step cuda_step_rounded(const cuda_device *d, const step *st); /* with the numbers of rows that a graph is made for */
cuda_launches cuda_stretch_start;                             /* cuda_backend.c: the launches of a stretch */
void cuda_graphs_drop(const cuda_device *d, cuda_segment *s);
/* What parameters of kernels are made of: the address of an operand, NULL for none; of the step; blocks of `each`. */
static inline void *cuda_at(const cuda_device *d, const cuda_segment *s, ref t)
{
    const tensor *i = &d->p->tensors[t];
    if (!t) return NULL;
    if (i->kind == TENSOR_WEIGHT) return (void *)(uintptr_t)d->w->helds[i->weight].data;
    return (void *)(uintptr_t)(i->kind == TENSOR_CONST ? d->constant[t] : s->act + i->off);
}
static inline const step *cuda_step_at(const cuda_segment *s) { return (const step *)(uintptr_t)s->step.at; }
/* The weights that a matrix op multiplies by. */
static inline const held_weight *cuda_matrix(const cuda_device *d, const op *o)
{
    return &d->w->helds[d->p->tensors[o->in[1]].weight];
}
static inline int64_t cuda_blocks(int64_t n, int64_t each) { return (n + each - 1) / each; }

/* cuda_fast.c: the kernels of fast.cu; starts the one that does an op in this step. *done false: there is none. */
int cuda_fast_load(cuda_weights *w, err *e);
int cuda_fast_start(cuda_device *d, const cuda_segment *s, const step *st, const cuda_ops *of, bool *done, err *e);
/* cuda_product.c: matrix ops that read the same activations, likewise; *done false: none was started. Of CUDA_CODES the
 * ops after the two matrices too. */
int cuda_product_load(cuda_weights *w, err *e);
int cuda_product_start(cuda_device *d, const cuda_segment *s, const step *st, const cuda_ops *of, bool *done, err *e);
/* The kernel of qdecode.cuh of a kind of panel; fills share and shared of its parameters. Rows of experts: `used` of
 * them are a token's; else it is 0. */
typedef struct product_rows {
    int32_t rows, used;
} product_rows;
int cuda_qdecode_launch(cuda_queue *q, const cuda_kernels *k, int kind, product_rows r, struct qdecode_args *a, err *e);
/* That of fmatmul.cuh; type: place in cuda_kernels.fmat. */
int cuda_fmat_launch(cuda_queue *q, const cuda_kernels *k, int type, int rows, struct fmat_args *a, err *e);
/* cuda_attn.c: ATTN, likewise, with the QUANTs of a CUDA_CODES; what its kernels may have of shared memory. */
int cuda_attn_load(cuda_weights *w, err *e);
int cuda_attn_start(cuda_device *d, const cuda_segment *s, const step *st, const cuda_ops *of, bool *done, err *e);

/* cuda_wide.c: for --exact off. cuda_wide_find: looks for cuBLAS, and writes what there is to say; an error only where
 * its path was given. */
int cuda_wide_find(cuda_weights *w, const weight_options *o, err *e);
uint64_t cuda_wide_bytes(const cuda_weights *w, const program *p); /* that a device takes */
int cuda_wide_open(cuda_device *d, err *e);
void cuda_wide_close(cuda_device *d);
void cuda_wide_prepare(cuda_device *d, const step *st); /* for a step: whether it has rows enough */
int cuda_wide_load(cuda_weights *w, err *e);            /* kernels: an image of their own, as few runs need one */
/* Rows row0 … row0 + rows - 1 of packed weights as bfloat16 at `to`; row0: a multiple of PANEL_ROWS. */
int cuda_wide_strip(cuda_queue *q, const cuda_kernels *k, const held_weight *w, int64_t row0, int64_t rows,
                    cu_address to, err *e);
/* MATMULs of many rows; *done false: they go the exact way, all of them. */
int cuda_wide_start(cuda_device *d, const cuda_segment *s, const step *st, const uint32_t *ops, int n, bool *done,
                    err *e);

/* cuda_weight.c */
int cuda_weights_send(cuda_weights *w, err *e);
/* As backend.weights_take; *host: of the host, for tables. */
uint64_t cuda_weights_take(const program *p, const bool *reads, uint64_t *host);
/* cuda_program.c: the program on the device, once; a struct run of a segment. */
int cuda_program_send(cuda_device *d, const program *p, err *e);
int cuda_run_send(cuda_device *d, cuda_segment *s, err *e);
/* cuda_pages.c: memory of pages; backend.page_get and page_put; the copies of a step. */
int cuda_pages_open(cuda_device *d, err *e);
void cuda_pages_close(cuda_device *d);
int cuda_page_get(dev *d, int group, int32_t page, uint8_t *to, err *e);
int cuda_page_put(dev *d, int group, int32_t page, const uint8_t *from, err *e);
int cuda_pages_copy(cuda_device *d, const step *st, err *e);
/* cuda_step.c: a step, with the rope tables and page copies that it needs. */
int cuda_step_send(cuda_device *d, cuda_segment *s, const step *st, err *e);
/* cuda_join.c */
extern const join_ways cuda_join_ways;
/* cuda_rows.c: backend.act_put, act_get, pick, and ways. */
int cuda_act_put(dev *d, const segment *s, ref t, int64_t col0, int64_t cols, int64_t rows, const void *from, err *e);
int cuda_act_get(dev *d, const segment *s, ref t, int64_t row0, int64_t rows, void *to, err *e);
/* The best logits of a step, computed with it: memory; how many are brought, at least as many as it asks for; starts
 * that, after the logits. */
int cuda_best_open(cuda_device *d, cuda_segment *s, err *e);
int32_t cuda_best_asked(const cuda_device *d, const cuda_segment *s, const step *st);
int cuda_best_start(cuda_device *d, const cuda_segment *s, const step *st, err *e);
int cuda_pick(dev *d, const segment *s, ref t, int64_t row0, int64_t rows, int32_t k, best_logit *to, err *e);
extern const row_ways cuda_row_ways;
static inline cu_address cuda_act_address(const cuda_segment *s, const program *p, ref t)
{
    return s->act + p->tensors[t].off;
}
