/* cuda_graph.c - the launches of a stretch as one: what a step launches depends on its numbers of rows alone, rounded
 * up to powers of two, since kernels read the numbers themselves on the device. A stretch that is started a second time
 * with such numbers is captured, and replayed from then on, for batches of changing size too. */
#include "cuda/cuda_state.h"

#include <string.h>

/* The step with numbers of rows for which a graph is made: no more than activations have room for. */
step cuda_step_rounded(const cuda_device *d, const step *st)
{
    step to = *st;
    for (int i = 0; i < AXIS_COUNT; i++) {
        for (to.n[i] = st->n[i] > 0; to.n[i] && to.n[i] < st->n[i];) to.n[i] *= 2;
        if (to.n[i] > d->max_rows[i]) to.n[i] = d->max_rows[i];
    }
    if (st->n[AXIS_TOK]) to.n[AXIS_EXP] = st->n[AXIS_EXP] / st->n[AXIS_TOK] * to.n[AXIS_TOK];
    return to;
}

static bool is_same_run(const cuda_graph *g, const cuda_segment *s, uint32_t stretch, const step *st)
{
    return g->uses && g->stretch == stretch && g->step == s->step.at && g->picks == s->picks &&
           !memcmp(g->n, st->n, sizeof g->n);
}

static void drop_graph(const cuda_device *d, cuda_graph *g)
{
    if (g->exec && !cuda_hangs(d->q.device)) d->q.cu->cuGraphExecDestroy(g->exec);
    *g = (cuda_graph){0};
}

void cuda_graphs_drop(const cuda_device *d, cuda_segment *s)
{
    for (int i = 0; i < CUDA_GRAPHS; i++) drop_graph(d, &s->graphs[i]);
}

/* The entry of this stretch and these rows; else the least recently used one becomes it. */
static cuda_graph *entry_of(const cuda_device *d, cuda_segment *s, uint32_t stretch, const step *st)
{
    cuda_graph *to = s->graphs;
    for (int i = 0; i < CUDA_GRAPHS && !is_same_run(to, s, stretch, st); i++)
        if (is_same_run(&s->graphs[i], s, stretch, st) || s->graphs[i].last < to->last) to = &s->graphs[i];
    if (!is_same_run(to, s, stretch, st)) {
        drop_graph(d, to);
        to->stretch = stretch;
        to->step = s->step.at;
        to->picks = s->picks;
        memcpy(to->n, st->n, sizeof to->n);
    }
    to->uses++;
    to->last = ++s->turn;
    return to;
}

/* Captures what `launch` starts, ready to be replayed. */
static int capture(cuda_device *d, cuda_graph *g, cuda_launches *launch, cuda_segment *s, const step *st, err *e)
{
    cu_graph graph = NULL;
    int rc = cuda_done(&d->q, d->q.cu->cuStreamBeginCapture_v2(cuda_stream_of(&d->q), CU_CAPTURE_THREAD),
                       "capturing a step", e);
    if (rc) return rc;
    rc = launch(d, s, g->stretch, st, e);
    const int code = d->q.cu->cuStreamEndCapture(cuda_stream_of(&d->q), &graph);
    if (!rc) rc = cuda_done(&d->q, code, "capturing a step", e);
    if (!rc) rc = cuda_done(&d->q, d->q.cu->cuGraphInstantiateWithFlags(&g->exec, graph, 0), "preparing a step", e);
    if (rc) g->exec = NULL;
    if (graph) d->q.cu->cuGraphDestroy(graph);
    return rc;
}

int cuda_graph_start(cuda_device *d, cuda_segment *s, uint32_t stretch, const step *st, cuda_launches *launch, err *e)
{
    if (d->wide.due) return launch(d, s, stretch, st, e);
    const step most = cuda_step_rounded(d, st);
    cuda_graph *g = entry_of(d, s, stretch, &most);
    if (!g->exec && g->uses < 2) return launch(d, s, stretch, &most, e);
    int rc = g->exec ? OK : capture(d, g, launch, s, &most, e);
    return rc ? rc : cuda_done(&d->q, d->q.cu->cuGraphLaunch(g->exec, cuda_stream_of(&d->q)), "starting a step", e);
}
