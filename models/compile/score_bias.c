/* score_bias.c - see score_bias.h. */
#include "models/compile/score_bias.h"

#include "base/mem.h"
#include "models/compile/distance_buckets.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Slopes of the power of two below the number of heads, then every other one of its double. */
static ref alibi_slopes(builder *b, const call *c, int heads)
{
    enum { HEADS_MAX = 1 << 12 };
    float slope[HEADS_MAX];
    if (heads > HEADS_MAX) return err_set(b->e, ERR_LIMIT, "%s: more than %d heads with alibi", c->where, HEADS_MAX), 0;
    int below = 1;
    while (below * 2 <= heads) below *= 2;
    for (int h = 0; h < heads; h++) {
        double k = h < below ? h + 1 : (2 * (h - below) + 1) / 2.0;
        slope[h] = (float)pow(2, -8.0 * k / below);
    }
    return builder_const(b, c->path, "slopes", slope, heads, 0);
}

/* The learned biases and the bucket of every distance. */
static bool bucket_biases(builder *b, const call *c, const score_bias_options *o, int heads, bool both_ways,
                          score_bias *out)
{
    int n = (int)o->buckets, reach = (int)o->bucket_distance;
    const char *wrong = o->alibi ? "alibi and buckets exclude each other" : buckets_check(n, reach, both_ways);
    if (wrong) return err_set(b->e, ERR_SPEC, "%s: %s", c->where, wrong), false;
    char slot[128];
    snprintf(slot, sizeof slot, "%s.buckets", c->path);
    bind_want want = {.slot = slot, .for_whom = c->where, .layer = b->layer, .rows = n * (int64_t)heads};
    if (bind_weight(b->bind, &want, &out->values, b->e)) return false;
    float *of = mem_array((size_t)reach * 2 + 1, sizeof *of);
    if (!of) return err_memory(b->e, c->where), false;
    for (int d = -reach; d <= reach; d++) of[d + reach] = (float)bucket_of(d, n, reach, both_ways);
    out->table = builder_const(b, c->path, "distances", of, 2 * (int64_t)reach + 1, 0);
    mem_free(of);
    return out->table != 0;
}

bool builder_score_bias(builder *b, const call *c, const score_bias_options *o, int heads, bool both_ways,
                        score_bias *out)
{
    *out = (score_bias){.kind = BIAS_NONE};
    if (o->alibi) {
        out->kind = strcmp(o->alibi_round, "bf16") == 0 ? BIAS_ALIBI_BF16 : BIAS_ALIBI;
        if (!(out->values = alibi_slopes(b, c, heads))) return false;
    }
    if (!o->buckets) return true;
    out->kind = BIAS_BUCKETS;
    return bucket_biases(b, c, o, heads, both_ways, out);
}
