/* layer_cut.c - gives each group of devices a run of layers, in proportion to its weight. Layers that read keys and
 * values of earlier ones stay in their group. Where the outer groups are of
 * other processes, what comes before and after the layers (tables, head) is a group of this process; if it is theirs,
 * the last group is one that has nothing and takes results. */
#include "plan/plan_state.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>

/* First op of layer l; n_op when l is past the last layer (then the tail after the layers counts as the last
 * segment's). */
static uint32_t layer_start(const program *p, int layer)
{
    uint32_t i = 0;
    while (i < p->n_op && p->ops[i].layer != layer) i++;
    return i;
}

/* The op after the last layer. */
static uint32_t layers_end(const program *p)
{
    uint32_t i = p->n_op;
    while (i > 0 && p->ops[i - 1].layer != p->n_enc + p->n_layer - 1) i--;
    return i;
}

static bool has_back(const plan *l) { return l->n_group > 1 && l->groups[l->n_group - 1].is_end; }

/* The first op of the group after the layers: those before it leave only the rows that are wanted. */
static uint32_t back_start(const plan *l)
{
    const program *p = l->p;
    uint32_t i = l->results_to < 0 ? layers_end(p) : p->n_op;
    while (i < p->n_op && p->ops[i].kind == OP_TAKE_OUT) i++;
    return i;
}

/* What comes before the first layer, and after the last. */
static void set_ends(plan *l)
{
    plan_group *front = &l->groups[0], *back = &l->groups[l->n_group - 1];
    if (front->is_end) front->op1 = layer_start(l->p, 0);
    if (!has_back(l)) return;
    back->op0 = back_start(l);
    back->op1 = l->p->n_op;
    back->layer0 = back->layer1 = back[-1].layer1;
}

static double weight_of(const plan_group *g)
{
    double sum = 0;
    for (int i = 0; i < g->ranks; i++) sum += g->share[i];
    return sum;
}

/* The layer that is nearest to `want` of those from `from` on before which the model may be divided, with `left` more
 * of them behind it; 0: there is none. */
static int nearest(const bool *may, int layers, int from, int want, int left)
{
    int best = 0, behind = 0;
    for (int l = layers - 1; l >= from; l--) {
        if (!may[l]) continue;
        const bool nearer = !best || abs(l - want) < abs(best - want);
        if (behind++ >= left && nearer) best = l;
    }
    return best;
}

/* Says before which layers the model may be divided. */
static int refuse_groups(const bool *may, int layers, int n, err *e)
{
    char list[160];
    int len = 0, places = 0;
    for (int l = 1; l < layers; l++) {
        if (!may[l]) continue;
        places++;
        if (len + 12 < (int)sizeof list)
            len += snprintf(list + len, sizeof list - (size_t)len, "%s%d", len ? ", " : "", l);
    }
    if (!places)
        return err_set(e, ERR_USAGE,
                       "--devices: this model cannot be divided by layers (;): later layers read keys and "
                       "values of earlier ones");
    return err_set(
        e, ERR_USAGE,
        "--devices: %d groups of devices: this model can be divided only before layers %s: later layers read "
        "keys and values of earlier ones",
        n, list);
}

/* Gives each group a run of layers in proportion to its weight, at least one. may: before which layers no state is
 * open. */
static int divide(plan *l, const bool *may, err *e)
{
    const program *p = l->p;
    const int layers = p->n_enc + p->n_layer, first = l->groups[0].is_end, n = l->n_group - first - has_back(l);
    plan_group *groups = l->groups + first;
    double total = 0, sum = 0;
    if (n > layers && n > 1)
        return err_set(e, ERR_USAGE, "--devices: %d groups of devices for a model of %d layers", n, layers);
    for (int i = 0; i < n; i++) total += weight_of(&groups[i]);
    for (int i = 0, layer = 0; i < n; i++) {
        plan_group *g = &groups[i];
        sum += weight_of(g);
        int end = (int)(sum / total * layers + 0.5);
        if (i == n - 1) end = layers;
        else if (!(end = nearest(may, layers, layer + 1, end, n - 2 - i))) return refuse_groups(may, layers, n, e);
        g->op0 = i ? groups[i - 1].op1 : first ? layer_start(p, 0) : 0;
        g->op1 = i < n - 1 ? layer_start(p, end) : has_back(l) ? back_start(l) : p->n_op;
        g->layer0 = layer;
        g->layer1 = end;
        layer = end;
    }
    set_ends(l);
    return 0;
}

int divide_layers(plan *l, err *e)
{
    const int layers = l->p->n_enc + l->p->n_layer;
    uint8_t *open = mem_zero((size_t)l->p->n_op + 1, 1);
    bool *may = mem_zero((size_t)layers + 1, sizeof *may);
    int rc = open && may ? OK : err_memory(e, "the plan");
    if (!rc) program_open_states(l->p, open);
    for (int i = 1; i < layers && !rc; i++) may[i] = !open[layer_start(l->p, i)];
    if (!rc) rc = divide(l, may, e);
    mem_free(open);
    mem_free(may);
    return rc;
}
