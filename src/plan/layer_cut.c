/* layer_cut.c - gives each group of devices a run of layers, in proportion to its weight. Where the outer groups are of
 * other processes, what comes before and after the layers (tables, head) is a group of this process; if it is theirs,
 * the last group is one that has nothing and takes results. */
#include "plan/plan_state.h"

#include "base/mem.h"

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

/* Gives each group a run of layers in proportion to its weight, at least one. open: program_open_states. */
static int divide(plan *l, const uint8_t *open, err *e)
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
        int end = (int)(sum / total * layers + 0.5), most = layers - (n - 1 - i);
        if (end < layer + 1) end = layer + 1;
        if (end > most || i == n - 1) end = most;
        while (i < n - 1 && end < most && open[layer_start(p, end)]) end++;
        g->op0 = i ? groups[i - 1].op1 : first ? layer_start(p, 0) : 0;
        g->op1 = i < n - 1 ? layer_start(p, end) : has_back(l) ? back_start(l) : p->n_op;
        if (i < n - 1 && open[g->op1])
            return err_set(e, ERR_USAGE,
                           "--devices: this model cannot be divided before layer %d: later layers read keys and values "
                           "of earlier ones",
                           end);
        g->layer0 = layer;
        g->layer1 = end;
        layer = end;
    }
    set_ends(l);
    return 0;
}

int divide_layers(plan *l, err *e)
{
    uint8_t *open = mem_zero((size_t)l->p->n_op + 1, 1);
    if (!open) return err_memory(e, "the plan");
    program_open_states(l->p, open);
    int rc = divide(l, open, e);
    mem_free(open);
    return rc;
}
