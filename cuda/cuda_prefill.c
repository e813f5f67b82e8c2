/* cuda_prefill.c - packed matrices times many rows: the kernels of prefill.cu and, on devices of capability 9.0, those
 * of wgmma.cu; when they pay. */
#include "cuda/cuda_prefill.h"

#include <stdio.h>

/* Rows from which on they are taken: of one matrix (SPEED.md: fewer go faster by qdecode.cuh); with experts in all, and
 * of each on average: also by warpgroups, whose blocks of rows are multiplied whole. */
enum { MANY = 129, MANY_OF_ALL = 33, MANY_OF_EXPERT = 8, WG_OF_EXPERT = 32, WG_CAPABILITY = 90 };

typedef struct kind_name {
    const char *name;
    int block, code;
} kind_name;
static const kind_name kinds[PANEL_KINDS] = {
#define X(name, bits, block, span, scale, base, code, zero) {#name, block, code},
    PANEL_KIND_LIST(X)
#undef X
};

/* Kernels of an image, by kind; by warpgroups: of kinds whose blocks fit. */
static int load_kinds(cuda_weights *w, cu_module from, bool warpgroups, cu_function to[PANEL_KINDS], err *e)
{
    char name[64];
    int rc = OK;
    for (int k = 0; k < PANEL_KINDS && !rc; k++) {
        if (warpgroups && !WG_FITS(kinds[k].block, kinds[k].code)) continue;
        snprintf(name, sizeof name, "cuda_%s_%s", warpgroups ? "qwgmma" : "qprefill", kinds[k].name);
        rc = cuda_find(&w->q, from, name, &to[k], e);
        if (!rc && warpgroups)
            rc = cuda_done(&w->q, w->q.cu->cuFuncSetAttribute(to[k], CU_SHARED_DYNAMIC, WG_SHARED),
                           "preparing a kernel", e);
    }
    return rc;
}

int cuda_prefill_load(cuda_weights *w, err *e)
{
    int rc = cuda_load_image(&w->q, "prefill", &w->prefill, e);
    if (!rc) rc = load_kinds(w, w->prefill, false, w->kernels.qprefill, e);
    if (rc || w->q.capability != WG_CAPABILITY) return rc;
    rc = cuda_load_image(&w->q, "wgmma", &w->wgmma, e);
    return rc ? rc : load_kinds(w, w->wgmma, true, w->kernels.qwgmma, e);
}

/* Whether a block of so many outputs has columns of two heads. */
static bool straddles(const product_args *of, int outputs)
{
    return of->head_rows != INT64_MAX && of->head_rows % outputs;
}

/* Whether there are so many rows of each expert on average. */
static bool has_rows(const held_weight *w, const product_args *of, int of_expert)
{
    return !of->table || of->rows >= w->rows / of->n * of_expert;
}

bool cuda_prefill_pays(const held_weight *w, const product_args *of)
{
    return of->rows >= (of->table ? MANY_OF_ALL : MANY) && has_rows(w, of, MANY_OF_EXPERT) &&
           !straddles(of, MANY_OUTPUTS);
}

int cuda_prefill_start(cuda_device *d, const held_weight *w, const qmat_args *a, err *e)
{
    qmat_args to = *a;
    const panel_format *f = panel_format_of(w->type);
    const cu_function warpgroups = d->w->kernels.qwgmma[f->kind];
    if (warpgroups && has_rows(w, &a->of, WG_OF_EXPERT) && !straddles(&a->of, WG_OUTPUTS)) {
        const cuda_grid grid = {cuda_blocks(a->of.rows, WG_ROWS(panel_two_levels(f->scale))),
                                cuda_blocks(a->of.n, WG_OUTPUTS), WG_THREADS, WG_SHARED};
        return cuda_launch_grid(&d->q, warpgroups, grid, (void *[]){&to}, e);
    }
    const cuda_grid grid = {cuda_blocks(a->of.rows, MANY_ROWS), cuda_blocks(a->of.n, MANY_OUTPUTS), MANY_THREADS, 0};
    return cuda_launch_grid(&d->q, d->w->kernels.qprefill[f->kind], grid, (void *[]){&to}, e);
}
