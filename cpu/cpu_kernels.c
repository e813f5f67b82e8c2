/* cpu_kernels.c - the kernel tables, best first, and the working memory that kernels share. */
#include "cpu/cpu.h"

#include "base/mem.h"
#include "cpu/attn_plan.h"
#include "cpu/chunk_steal.h"
#include "cpu/matmul_plan.h"

#include <string.h>

const cpu_table cpu_table_c = {
    .isa = "c",
    .op =
        {
#define X(id, name, facts, doc) [OP_##id] = def_##name,
            KERNEL_LIST(X)
#undef X
        },
    .probe = {cpu_probe_read_c, cpu_probe_multiply_c, NULL},
    .wire = &wire_reference,
    .scan = &scan_reference,
};

enum { SHARED_MAX = 16 << 20 }; /* floats; a step that needs more is not divided into ranges */

const cpu_table *const cpu_tables[] = {
#if defined(__x86_64__)
    &cpu_table_avx512bf16, &cpu_table_avx512,
    &cpu_table_avxvnni,    &cpu_table_avx2,
#elif defined(__aarch64__)
    &cpu_table_dotprod, &cpu_table_neon,
#endif
    &cpu_table_c,          NULL};

const cpu_table *cpu_kernels(unsigned flags, bool inexact)
{
    size_t i = 0;
    while (cpu_tables[i]->needs & ~flags || cpu_tables[i]->inexact > inexact) i++; /* the last needs nothing */
    return cpu_tables[i];
}

const cpu_table *cpu_kernels_named(const char *name)
{
    unsigned flags = cpu_features();
    for (size_t i = 0; cpu_tables[i]; i++)
        if (strcmp(cpu_tables[i]->isa, name) == 0) return cpu_tables[i]->needs & ~flags ? NULL : cpu_tables[i];
    return NULL;
}

int cpu_work_open(cpu_work *w, const program *p, const int max_rows[AXIS_COUNT], const cache_options *cache,
                  int workers, err *e)
{
    uint64_t floats = run_scratch_floats(p), shared = 0, pages = 0;
    int64_t rows = 0;
    for (int i = AXIS_TOK; i < AXIS_COUNT; i++)
        if (max_rows[i] > rows) rows = max_rows[i];
    if (rows == 0 || rows > MATMUL_BLOCK_M) rows = MATMUL_BLOCK_M;
    for (uint32_t i = 0; i < p->n_weight; i++) {
        if (p->weights[i].vector) continue;
        uint64_t need = matmul_space_floats(rows, p->weights[i].cols, true);
        if (p->weights[i].parts)
            need += (uint64_t)rows * (uint64_t)p->weights[i].cols; /* MATMUL_HEADS: rows of a head */
        if (need > floats) floats = need;
    }
    for (int g = 0; g < GROUP_MAX; g++)
        if (cache->n_page[g] > 0 && (uint64_t)cache->n_page[g] > pages) pages = (uint64_t)cache->n_page[g];
    uint64_t ranges = pages * PAGE_TOKENS / ATTN_RANGE + 4 * (uint64_t)workers; /* of a step at most, see v_attn */
    for (uint32_t i = 0; i < p->n_op; i++) {
        const op *a = &p->ops[i];
        if (a->kind != OP_ATTN || a->state < 0) continue;
        const state *s = &p->states[a->state];
        uint64_t need = attn_space_floats(s->k_dim, s->v_dim);
        if (need > floats) floats = need;
        const int per_kv = attn_per_kv(a, s->heads), most = per_kv < a->u.attn.heads ? per_kv : a->u.attn.heads;
        need = ranges * attn_soft_floats((uint64_t)s->heads * (uint64_t)most, s->v_dim);
        if (need > shared) shared = need;
    }
    if (shared > SHARED_MAX) shared = SHARED_MAX;
    shared = (shared + LANES - 1) / LANES * LANES;
    floats = (floats + LANES - 1) / LANES * LANES;
    uint64_t runs = ((uint64_t)workers + 1) * sizeof(chunk_run); /* cleared memory: turn 0, no chunks */
    *w = (cpu_work){0};
    if (!mem_mul(floats, (uint64_t)workers, &w->bytes) || !mem_add(w->bytes, shared, &w->bytes) ||
        !mem_mul(w->bytes, sizeof(float), &w->bytes) || !mem_add(w->bytes, runs, &w->bytes) ||
        !(w->scratch = mem_map(w->bytes)))
        return err_set(e, ERR_MEMORY, "out of memory for the scratch space of %d threads", workers);
    w->scratch_floats = floats;
    w->shared_floats = shared;
    w->shared = w->scratch + floats * (uint64_t)workers;
    w->runs = (chunk_run *)(void *)(w->shared + shared);
    w->solo = w->runs + workers;
    return OK;
}

void cpu_work_close(cpu_work *w)
{
    mem_unmap(w->scratch, w->bytes);
    *w = (cpu_work){0};
}
