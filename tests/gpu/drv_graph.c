/* drv_graph.c - capture of streams, and graphs that replay what was captured.
 *
 * A node follows the nodes that its stream had last; an event stands for such nodes and brings another stream in. A
 * graph's nodes run in any order that this leaves open: the seed chooses. */
#include "tests/gpu/drv_state.h"
#include "tests/gpu/plant.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/ptx_lex.h"

enum { DEPENDENT_GRAPHS = 12030 };

typedef struct graph {
    int n_node;
    node *nodes;
} graph;

typedef struct graph_exec {
    graph g;
    bool alive;
} graph_exec;

/* One launch of a graph. */
typedef struct graph_run {
    int n_node, left;
    node *nodes;
    bool *done;
    uint64_t random;
} graph_run;

static capture *captures;
static graph_exec *launched[2]; /* the last one; another one before it */

CUresult capture_forbids(void)
{
    for (capture *c = captures; c; c = c->next) {
        if (c->ended) continue;
        const bool mine = pthread_equal(c->thread, pthread_self());
        if (c->mode == CAPTURE_RELAXED || (c->mode == CAPTURE_THREAD && !mine)) continue;
        c->broken = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return CUDA_SUCCESS;
}

static void follow(int **list, int *n, const int *more, int n_more)
{
    for (int i = 0; i < n_more; i++) {
        bool there = false;
        for (int k = 0; k < *n; k++) there |= (*list)[k] == more[i];
        if (!there) *(int *)ptx_grow(list, n, sizeof(int)) = more[i];
    }
}

CUresult capture_add(stream *s, op *o)
{
    capture *c = s->capture;
    if (c->broken) return op_free(o), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    for (int i = 0; o->depends && i < s->n_tail; i++) {
        if (c->nodes[s->tail[i]].o->kind == OP_KERNEL && drv_set.version >= DEPENDENT_GRAPHS) continue;
        drv_say("a captured kernel depends on a node that is no kernel, or the driver is older than 12.3");
        return op_free(o), CUDA_ERROR_INVALID_VALUE;
    }
    node *n = GROW(c->nodes, c->n_node);
    n->o = o;
    follow(&n->after, &n->n_after, s->tail, s->n_tail);
    s->n_tail = 0;
    *GROW(s->tail, s->n_tail) = c->n_node - 1;
    return CUDA_SUCCESS;
}

void capture_record(event *e, stream *s)
{
    e->capture = s->capture;
    e->recorded = false;
    e->n_tail = 0;
    follow(&e->tail, &e->n_tail, s->tail, s->n_tail);
}

capture *capture_of(const event *e) { return e->capture && !e->capture->ended ? e->capture : NULL; }

CUresult capture_wait(stream *s, const event *e)
{
    if (s->capture && s->capture != e->capture) {
        s->capture->broken = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (!s->capture && s == s->cx->null_stream) return e->capture->broken = true, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (!s->capture) s->n_tail = 0;
    s->capture = e->capture;
    follow(&s->tail, &s->n_tail, e->tail, e->n_tail);
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream s, int mode)
{
    CUresult r = drv_enter("cuStreamBeginCapture", CALL_CONTEXT);
    stream *t = r ? NULL : stream_of(s);
    if (!r && !t) r = CUDA_ERROR_INVALID_HANDLE;
    if (!r && (mode < 0 || mode > CAPTURE_RELAXED)) r = CUDA_ERROR_INVALID_VALUE;
    if (!r && (t->capture || t == t->cx->null_stream)) r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (r) return drv_leave(r);
    capture *c = calloc(1, sizeof *c);
    if (!c) abort();
    *c = (capture){.mode = mode, .origin = t, .thread = pthread_self(), .next = captures};
    captures = c;
    t->capture = c;
    t->n_tail = 0;
    return drv_leave(r);
}

/* Whether every node is followed by one, or is among the origin's last. */
static bool joined(const capture *c)
{
    bool *followed = calloc((size_t)c->n_node + 1, 1);
    bool all = true;
    if (!followed) abort();
    for (int i = 0; i < c->n_node; i++)
        for (int k = 0; k < c->nodes[i].n_after; k++) followed[c->nodes[i].after[k]] = true;
    for (int k = 0; k < c->origin->n_tail; k++) followed[c->origin->tail[k]] = true;
    for (int i = 0; i < c->n_node; i++) all &= followed[i];
    free(followed);
    return all;
}

static void free_nodes(node *nodes, int n)
{
    for (int i = 0; i < n; i++) {
        op_free(nodes[i].o);
        free(nodes[i].after);
    }
    free(nodes);
}

static node *copy_nodes(const node *from, int n)
{
    node *nodes = calloc((size_t)n + 1, sizeof *nodes);
    if (!nodes) abort();
    for (int i = 0; i < n; i++) {
        nodes[i].o = op_copy(from[i].o);
        follow(&nodes[i].after, &nodes[i].n_after, from[i].after, from[i].n_after);
    }
    return nodes;
}

CUresult cuStreamEndCapture(CUstream s, CUgraph *out)
{
    CUresult r = drv_enter("cuStreamEndCapture", CALL_CONTEXT);
    stream *t = r ? NULL : stream_of(s);
    *out = NULL;
    if (!r && !t) r = CUDA_ERROR_INVALID_HANDLE;
    if (!r && !t->capture) r = CUDA_ERROR_INVALID_VALUE;
    if (!r && t->capture->origin != t) r = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (!r && t->capture->mode != CAPTURE_RELAXED && !pthread_equal(t->capture->thread, pthread_self()))
        r = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (r) return drv_leave(r);
    capture *c = t->capture;
    r = c->broken   ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
        : joined(c) ? CUDA_SUCCESS
                    : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    stream_leave_capture(c);
    c->ended = true;
    if (r) {
        free_nodes(c->nodes, c->n_node);
    } else {
        *out = calloc(1, sizeof **out);
        if (!*out) abort();
        **out = (graph){c->n_node, c->nodes};
    }
    c->nodes = NULL;
    c->n_node = 0;
    return drv_leave(r);
}

CUresult cuStreamIsCapturing(CUstream s, int *status)
{
    CUresult r = drv_enter("cuStreamIsCapturing", CALL_CONTEXT);
    const stream *t = r ? NULL : stream_of(s);
    if (!r && !t) r = CUDA_ERROR_INVALID_HANDLE;
    if (!r) *status = !t->capture ? 0 : t->capture->broken ? 2 : 1;
    return drv_leave(r);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, unsigned long long flags)
{
    (void)flags;
    CUresult r = drv_enter("cuGraphInstantiate", CALL_CONTEXT);
    if (!r && !g) r = CUDA_ERROR_INVALID_VALUE;
    if (r) return drv_leave(r);
    *out = calloc(1, sizeof **out);
    if (!*out) abort();
    **out = (graph_exec){{g->n_node, copy_nodes(g->nodes, g->n_node)}, true};
    drv_count.graphs++;
    return drv_leave(r);
}

CUresult cuGraphDestroy(CUgraph g)
{
    CUresult r = drv_enter("cuGraphDestroy", 0);
    if (!r && !g) r = CUDA_ERROR_INVALID_VALUE;
    if (r) return drv_leave(r);
    free_nodes(g->nodes, g->n_node);
    free(g);
    return drv_leave(r);
}

CUresult cuGraphExecDestroy(CUgraphExec e)
{
    CUresult r = drv_enter("cuGraphExecDestroy", 0);
    if (!r && !e) r = CUDA_ERROR_INVALID_VALUE;
    if (r) return drv_leave(r);
    for (int i = 0; i < 2; i++)
        if (launched[i] == e) launched[i] = NULL;
    free_nodes(e->g.nodes, e->g.n_node); /* launches under way have copies */
    free(e);
    return drv_leave(r);
}

static uint64_t blocks_of(const graph *g)
{
    uint64_t n = 0;
    for (int i = 0; i < g->n_node; i++) {
        const op *o = g->nodes[i].o;
        if (o->kind == OP_KERNEL) n += (uint64_t)o->grid[0] * o->grid[1] * o->grid[2];
    }
    return n;
}

/* What is launched for e: e, but where a stale graph is planted. A graph of more blocks is none: it was made for more
 * rows, and kernels ask how many there are. */
static graph_exec *launch_of(graph_exec *e)
{
    static bool due;
    if (launched[0] != e) launched[1] = launched[0];
    launched[0] = e;
    due = plant_now("graph:") || due;
    const uint64_t blocks = due ? blocks_of(&e->g) : 0,
                   other = due && launched[1] ? blocks_of(&launched[1]->g) : blocks;
    if (other >= blocks) return e;
    due = false;
    drv_say("left out: a graph of %" PRIu64 " blocks, for one of %" PRIu64, blocks, other);
    return launched[1];
}

CUresult cuGraphLaunch(CUgraphExec e, CUstream s)
{
    CUresult r = drv_enter("cuGraphLaunch", CALL_CONTEXT);
    stream *t = r ? NULL : stream_of(s);
    if (!r && (!e || !t)) r = CUDA_ERROR_INVALID_HANDLE;
    if (!r && t->capture) t->capture->broken = true, r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (r) return drv_leave(r);
    op *o = op_new(OP_GRAPH, t->cx);
    graph_run *run = o->run = calloc(1, sizeof *run);
    if (!run) abort();
    e = launch_of(e);
    run->nodes = copy_nodes(e->g.nodes, e->g.n_node);
    run->n_node = run->left = e->g.n_node;
    run->done = calloc((size_t)run->n_node + 1, 1);
    run->random = drv_set.seed + drv_count.graph_launches++;
    if (!run->done) abort();
    return drv_leave(stream_add(t, o));
}

static bool node_may_run(const graph_run *r, int i)
{
    const node *n = &r->nodes[i];
    if (r->done[i]) return false;
    n->o->held = false;
    for (int k = 0; k < n->n_after; k++) {
        if (r->done[n->after[k]]) continue;
        if (!op_lets_begin(r->nodes[n->after[k]].o, n->o)) return false;
        n->o->held = true;
    }
    return true;
}

bool graph_run_step(graph_run *r)
{
    int chosen = -1, n = 0;
    for (int i = 0; i < r->n_node; i++)
        if (node_may_run(r, i) && machine_random(&r->random) % (uint64_t)++n == 0) chosen = i;
    if (chosen >= 0 && op_step(r->nodes[chosen].o)) {
        r->done[chosen] = true;
        r->left--;
    }
    return !r->left;
}

void graph_run_free(graph_run *r)
{
    free_nodes(r->nodes, r->n_node);
    free(r->done);
    free(r);
}
