/* strategy.c - see strategy.h. What the original fixes in code or in its pool of 50 tokens is a value here: the pool is
 * the whole vocabulary, max_k is top_k. */
#include "sample/strategy.h"

#include <string.h>

typedef struct strategy_row {
    const char *name;
    int64_t top_k;
    double top_p, min_p, typical_p, tfs_z;
    int64_t mirostat, fsd_k, fsd_steps;
} strategy_row;

static const strategy_row rows[] = {
    {"std", .top_k = 8, .top_p = 0.9},
    {"greedy", .top_k = 1},
    {"top_k", .top_k = 8},
    {"top_p", .top_k = 8, .top_p = 0.9},
    {"fsd", .fsd_k = 6},
    {"random_fsd", .fsd_k = 6, .fsd_steps = 10},
    {"min_p", .min_p = 0.05},
    {"tfs", .tfs_z = 0.95},
    {"typical", .typical_p = 0.95},
    {"mirostat", .mirostat = 2},
};

const char *strategy_name(size_t i) { return i < sizeof rows / sizeof *rows ? rows[i].name : NULL; }

static double share(double p) { return p > 0 ? p : 1; } /* not named: all */

int strategy_apply(sample_params *p, const char *where, err *e)
{
    static const char prefix[] = "sample.";
    const char *name = p->strategy;
    if (!name) return OK;
    if (strncmp(name, prefix, sizeof prefix - 1) == 0) name += sizeof prefix - 1;
    const strategy_row *r = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0) r = &rows[i];
    if (!r)
        return err_set(e, ERR_USAGE,
                       "%s: '%.40s' is not one of std|greedy|top_k|top_p|min_p|tfs|typical|mirostat|fsd|random_fsd",
                       where, p->strategy);
    p->strategy = r->name;
    if (strcmp(r->name, "greedy") == 0) p->temperature = 0;
    p->top_k = r->top_k;
    p->top_p = share(r->top_p);
    p->min_p = r->min_p;
    p->typical_p = share(r->typical_p);
    p->tfs_z = share(r->tfs_z);
    p->mirostat = r->mirostat;
    p->mirostat_tau = 5;
    p->mirostat_eta = 0.1;
    p->fsd_k = r->fsd_k;
    p->fsd_alpha = 0.5;
    p->fsd_n = 3;
    p->fsd_beta = 0.9;
    p->fsd_steps = r->fsd_steps;
    return OK;
}
