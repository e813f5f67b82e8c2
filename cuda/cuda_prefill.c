/* cuda_prefill.c - packed matrices times many rows: the kernels of prefill.cu, and when they pay. */
#include "cuda/cuda_prefill.h"

#include <stdio.h>

/* Rows from which on they are taken: in all; with experts, of each on average. */
enum { MANY = 33, MANY_OF_EXPERT = 8 };

int cuda_prefill_load(cuda_weights *w, err *e)
{
    static const char *const kinds[PANEL_KINDS] = {
#define X(name, ...) #name,
        PANEL_KIND_LIST(X)
#undef X
    };
    char name[64];
    int rc = cuda_load_image(&w->q, "prefill", &w->prefill, e);
    for (int k = 0; k < PANEL_KINDS && !rc; k++) {
        snprintf(name, sizeof name, "cuda_qprefill_%s", kinds[k]);
        rc = cuda_find(&w->q, w->prefill, name, &w->kernels.qprefill[k], e);
    }
    return rc;
}

bool cuda_prefill_pays(const held_weight *w, const product_args *of)
{
    const bool straddles = of->head_rows != INT64_MAX && of->head_rows % MANY_OUTPUTS; /* a block, two heads */
    const int64_t experts = of->table ? w->rows / of->n : 1;
    return of->rows >= MANY && of->rows >= (of->table ? experts * MANY_OF_EXPERT : 1) && !straddles;
}

int cuda_prefill_start(cuda_device *d, const held_weight *w, const qmat_args *a, err *e)
{
    qmat_args to = *a;
    const cuda_grid grid = {cuda_blocks(a->of.rows, MANY_ROWS), cuda_blocks(a->of.n, MANY_OUTPUTS), MANY_THREADS, 0};
    return cuda_launch_grid(&d->q, d->w->kernels.qprefill[panel_format_of(w->type)->kind], grid, (void *[]){&to}, e);
}
