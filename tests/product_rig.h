/* product_rig.h - products of packed matrices by the kernels of cuda/qdecode.cuh, or by those of many rows, on the
 * software GPU, against their definition. */
#pragma once
#include "gpu_path.h"
#include "random_blocks.h"

#include "cuda/cuda_args.h"
#include "cuda/cuda_prefill.h"
#include "cuda/cuda_state.h"
#include "ops/quant_rows.h"

#include <dlfcn.h>
#include <stdio.h>

static cuda_weights device;          /* its queue and kernels */
static const uint64_t *instructions; /* of warps, that the software GPU has done */
static const uint64_t *wgmmas;       /* of those, wgmma */
static bool by_many;                 /* the kernels of many rows */

/* What is multiplied. n: outputs of each matrix of an expert; heads: parts of a row of activations. */
typedef struct product_size {
    int rows, n, cols, heads, experts, parts;
} product_size;

/* Experts of rows, sorted. */
typedef int expert_of(int row, int rows);

enum { ROWS_MOST = 2048, PARTS_MOST = 3 };

typedef struct product {
    product_size s;
    dtype type;
    held_weight w[PARTS_MOST];
    uint8_t *x;
    float *bias[PARTS_MOST], *want[PARTS_MOST], *got;
    int32_t table[ROWS_MOST * DISPATCH_COLS];
    uint64_t x_row;
    cu_address memory[3 * PARTS_MOST + 3];
    int n_memory;
    bool counts;
} product;

static inline void make_weights(product *p, int part)
{
    const int64_t rows = (int64_t)p->s.n * p->s.experts;
    const uint64_t row = dtype_row_bytes(p->type, (uint64_t)p->s.cols), panel = panel_bytes(p->type, p->s.cols);
    const int64_t panels = (rows + PANEL_ROWS - 1) / PANEL_ROWS;
    uint8_t *blocks = random_blocks(p->type, rows, p->s.cols, false), *to = mem_zero((size_t)panels, panel);
    assert_non_null(to);
    for (int64_t n = 0; n < rows; n += PANEL_ROWS) {
        const uint8_t *from[PANEL_ROWS] = {NULL};
        for (int r = 0; r < PANEL_ROWS && n + r < rows; r++) from[r] = blocks + (uint64_t)(n + r) * row;
        panel_pack(p->type, from, p->s.cols, to + (uint64_t)(n / PANEL_ROWS) * panel);
    }
    mem_free(blocks);
    p->w[part] = (held_weight){
        .data = to, .type = p->type, .stride = panel, .packed = true, .rows = rows, .cols = p->s.cols};
    p->bias[part] = mem_alloc((size_t)rows * sizeof(float));
    for (int64_t i = 0; i < rows; i++) p->bias[part][i] = rig_normal();
    p->want[part] = mem_zero((size_t)(p->s.rows * p->s.n), sizeof(float));
}

/* Rows as they lie on a GPU: one by one. */
static inline void make_rows(product *p)
{
    const int block = panel_format_of(p->type)->act;
    const int64_t cols = (int64_t)p->s.cols * p->s.heads;
    p->x_row = act_row_bytes(cols, block);
    p->x = mem_zero((size_t)p->s.rows, p->x_row);
    for (int m = 0; m < p->s.rows; m++) {
        act_part to = act_parts(p->x + (uint64_t)m * p->x_row, (row_tile){0, 1}, cols, block);
        for (int64_t k = 0; k < act_padded(cols); k += block) {
            float x[PANEL_K];
            act_block b;
            const int64_t n = cols - k < 0 ? 0 : cols - k < block ? cols - k : block;
            for (int i = 0; i < block; i++) x[i] = rig_normal();
            act_encode(x, n, block, &b);
            act_block_put(to, 1, 0, k / block, block, &b);
        }
    }
}

static inline void define(product *p, int part)
{
    const int64_t cols = (int64_t)p->s.cols * p->s.heads;
    for (int m = 0; m < p->s.rows; m++) {
        const int expert = p->s.experts > 1 ? p->table[m * DISPATCH_COLS + DISPATCH_EXPERT] : 0;
        for (int64_t n = 0; n < p->s.n && expert >= 0; n++) {
            const held_weight own = held_part(&p->w[part], expert, p->s.n);
            const act_rows x = {p->x + (uint64_t)m * p->x_row, panel_format_of(p->type)->act, 1, cols,
                                n / (p->s.n / p->s.heads) * p->s.cols};
            def_qoutput(&own, n, &x, p->bias[part] + expert * p->s.n + n, p->want[part] + m * p->s.n + n, 1);
        }
    }
}

static inline cu_address send(product *p, const void *from, uint64_t bytes)
{
    err e = {0};
    cu_address *at = &p->memory[p->n_memory++];
    assert_int_equal(cuda_take(&device.q, bytes, "a test", at, &e), OK);
    assert_int_equal(cuda_send(&device.q, *at, from, bytes, &e), OK);
    return *at;
}

/* Each part by the kernel of many rows. */
static inline int compute_many(const product *p, const qdecode_args *a, err *e)
{
    int rc = OK;
    for (int i = 0; i < p->s.parts && !rc; i++) {
        cuda_device d = {.q = device.q, .w = &device};
        const product_part *part = &a->part[i];
        const qmat_args q = {.of = {.bias = part->bias,
                                    .y = part->y,
                                    .table = a->table,
                                    .n = part->n,
                                    .cols = a->cols,
                                    .x_cols = a->x_cols,
                                    .head_rows = a->head_rows,
                                    .live = a->live,
                                    .rows = p->s.rows},
                             .w = part->w,
                             .x = a->x,
                             .w_stride = part->stride,
                             .x_stride = a->x_stride,
                             .type = a->type,
                             .factor = a->factor};
        rc = cuda_prefill_start(&d, &p->w[i], &q, e);
    }
    return rc;
}

static inline void compute(product *p, int32_t used)
{
    err e = {0};
    const int64_t cols = (int64_t)p->s.cols * p->s.heads;
    const uint64_t each = (uint64_t)(p->s.rows * p->s.n) * sizeof(float);
    const panel_format *f = panel_format_of(p->type);
    qdecode_args a = {.live = (const int32_t *)(uintptr_t)send(p, &p->s.rows, 4),
                      .x = (const uint8_t *)(uintptr_t)send(p, p->x, (uint64_t)p->s.rows * p->x_row),
                      .x_stride = p->x_row,
                      .cols = p->s.cols,
                      .x_cols = cols,
                      .head_rows = p->s.heads > 1 ? p->s.n / p->s.heads : INT64_MAX,
                      .parts = p->s.parts,
                      .type = (int32_t)p->type,
                      .factor = f->factor};
    if (p->s.experts > 1) a.table = (const int32_t *)(uintptr_t)send(p, p->table, sizeof p->table);
    cu_address y[PARTS_MOST];
    for (int i = 0; i < p->s.parts; i++) {
        const held_weight *w = &p->w[i];
        const uint64_t panels = (uint64_t)(w->rows + PANEL_ROWS - 1) / PANEL_ROWS;
        y[i] = send(p, p->want[i], each);
        a.part[i] = (product_part){.w = (const uint8_t *)(uintptr_t)send(p, w->data, panels * w->stride),
                                   .bias = (const float *)(uintptr_t)send(p, p->bias[i], (uint64_t)w->rows * 4),
                                   .y = (float *)(uintptr_t)y[i],
                                   .n = p->s.n,
                                   .stride = w->stride,
                                   .first = a.panels};
        a.panels += (p->s.n + PANEL_ROWS - 1) / PANEL_ROWS;
    }
    for (int i = 0; i < p->s.parts && !p->counts; i++) define(p, i);
    const product_rows rows = {p->s.rows, used};
    if (by_many ? compute_many(p, &a, &e) : cuda_qdecode_launch(&device.q, &device.kernels, f->kind, rows, &a, &e))
        fail_msg("%s", e.msg);
    for (int i = 0; i < p->s.parts; i++) {
        if (cuda_fetch(&device.q, p->got, y[i], each, &e)) fail_msg("%s: %s", dtype_info[p->type].name, e.msg);
        for (int j = 0; j < p->s.rows * p->s.n && !p->counts; j++)
            if (memcmp(&p->got[j], &p->want[i][j], 4))
                fail_msg("%s, %d x %d, %d rows, %d heads, %d experts, part %d: row %d, output %d is %a instead of %a",
                         dtype_info[p->type].name, p->s.n, p->s.cols, p->s.rows, p->s.heads, p->s.experts, i,
                         j / p->s.n, j % p->s.n, (double)p->got[j], (double)p->want[i][j]);
    }
}

/* Instructions of warps that it took. counts: what comes out is not looked at. */
static inline uint64_t check(dtype type, product_size s, expert_of *of, int32_t used, bool counts)
{
    product p = {.s = s, .type = type, .counts = counts};
    const uint64_t before = *instructions;
    for (int i = 0; i < s.parts; i++) make_weights(&p, i);
    make_rows(&p);
    p.got = mem_alloc((size_t)(s.rows * s.n) * sizeof(float));
    for (int m = 0; m < s.rows && of; m++) p.table[m * DISPATCH_COLS + DISPATCH_EXPERT] = of(m, s.rows);
    compute(&p, used);
    for (int i = 0; i < p.n_memory; i++) cuda_give(&device.q, &p.memory[i], 0);
    for (int i = 0; i < s.parts; i++) {
        mem_free((void *)(uintptr_t)p.w[i].data);
        mem_free(p.bias[i]);
        mem_free(p.want[i]);
    }
    mem_free(p.x);
    mem_free(p.got);
    return *instructions - before;
}

static inline int open_device(void **unused)
{
    (void)unused;
    char folder[1024], path[1100];
    const char *why;
    err e = {0};
    gpu_folder(folder);
    snprintf(path, sizeof path, "%s/libcuda.so.1", folder);
    void *lib = dlopen(path, RTLD_NOW);
    if (!lib) return fprintf(stderr, "%s\n", dlerror()), 1;
    instructions = dlsym(lib, "machine_warp_instructions");
    wgmmas = dlsym(lib, "products_done");
    const cuda_driver *cu = cuda_driver_open(&why);
    if (!cu) return fprintf(stderr, "%s\n", why), 1;
    int rc = cuda_queue_open(&device.q, cu, 0, &e);
    if (!rc) rc = cuda_load_image(&device.q, "fast", &device.fast, &e);
    if (!rc) rc = cuda_product_load(&device, &e);
    if (!rc && by_many) rc = cuda_prefill_load(&device, &e);
    if (rc) fprintf(stderr, "%s\n", e.msg);
    return rc;
}

static inline int close_device(void **unused)
{
    (void)unused;
    const int code = device.q.cu->cuModuleUnload(device.fast);
    if (device.prefill) device.q.cu->cuModuleUnload(device.prefill);
    if (device.wgmma) device.q.cu->cuModuleUnload(device.wgmma);
    cuda_queue_close(&device.q);
    return code;
}
