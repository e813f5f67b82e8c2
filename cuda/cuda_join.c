/* cuda_join.c - the ranks of a group of devices as one (row_ways.join): a step is launched on all of them by one
 * thread, and what they hand over at a COLL goes by peer access, ordered by events: nothing passes the host.
 *
 * A COLL: each rank leaves its rows or codes in its outbox, all meet, each makes the result for itself out of all
 * outboxes. A large sum is made in two steps: each rank that of its chunk, codes of which it leaves, and all meet again
 * (Flash Communication, algorithm 1). Outboxes are two, used in turn: who writes one again has met those that read it.
 * A step that is started a second time with about as many rows is one graph over all devices. */
#include "cuda/join_args.h"

#include "base/mem.h"
#include "cuda/cuda_state.h"
#include "tensor/act_q8.h"

#include <string.h>

/* Bytes of codes that a rank reads of the others at most where all sum all; else it sums a chunk. */
enum { ONE_STEP_BYTES = 64 << 10 };
enum { GRAPHS = 16, BLOCKS_MAX = 96 };

#define KERNEL_LIST_OF_JOIN(X) X(columns) X(codes) X(rows) X(encode) X(sum) X(decode)

typedef struct member {
    cuda_device *d;
    dev *of;
    const segment *s;
    cu_module image;
#define X(name) cu_function name;
    KERNEL_LIST_OF_JOIN(X)
#undef X
    cu_event came;                 /* so far its stream has come */
    cu_address outbox[2], sums[2]; /* rows or codes that it leaves; codes of its chunk's sums */
    cu_address odd;
    uint64_t out_bytes, sum_bytes;
} member;

/* A step as it was started before with about so many rows. */
typedef struct joint_graph {
    int32_t n[AXIS_COUNT];
    cu_address step[JOIN_RANKS]; /* where the steps were */
    uint32_t picks;              /* ranks that pick */
    uint64_t uses, last;
    cu_graph_exec exec; /* NULL: not captured yet */
} joint_graph;

struct joined_group {
    join_group g;
    int ranks;
    bool coded; /* sums pass coded: rows that are not finite are looked for */
    member m[JOIN_RANKS];
    joint_graph graphs[GRAPHS];
    uint64_t turn;
};

/* ---- opening */

static void close_joined(joined_group *j)
{
    for (int i = 0; i < GRAPHS; i++)
        if (j->graphs[i].exec) j->m[0].d->q.cu->cuGraphExecDestroy(j->graphs[i].exec);
    for (int r = 0; r < j->ranks; r++) {
        member *m = &j->m[r];
        if (!m->d) continue;
        cuda_device_of(m->of);
        if (!m->d->q.bad) m->d->q.cu->cuStreamSynchronize(m->d->q.stream);
        for (int k = 0; k < 2; k++) {
            cuda_give(&m->d->q, &m->outbox[k], m->out_bytes);
            cuda_give(&m->d->q, &m->sums[k], m->sum_bytes);
        }
        cuda_give(&m->d->q, &m->odd, sizeof(uint32_t));
        if (m->came) m->d->q.cu->cuEventDestroy_v2(m->came);
        if (m->image) m->d->q.cu->cuModuleUnload(m->image);
    }
    mem_free(j);
}

static cuda_segment *segment_of(const member *m) { return m->s->compiled; }

static const op *coll_of(const member *m, uint32_t k) { return &m->s->p->ops[m->s->ends[k]]; }

/* Bytes of a row that a rank leaves at COLL k, and of the codes of a sum. */
static uint64_t out_bytes(const joined_group *j, const member *m, uint32_t k)
{
    const op *o = coll_of(m, k);
    const tensor *t = &m->s->p->tensors[o->in[0]];
    if (j->g.colls[k].how == COLL_REDUCE)
        return (uint64_t)wire_bytes(j->g.codec.partial, j->g.group, tensor_count(&m->s->p->tensors[o->out]));
    if (!o->in[0]) return 0;
    return t->block ? act_row_bytes(tensor_count(t), t->block) : (uint64_t)tensor_count(t) * sizeof(float);
}

static uint64_t sum_bytes(const joined_group *j, const member *m, uint32_t k)
{
    const tensor *t = &m->s->p->tensors[coll_of(m, k)->out];
    return j->g.colls[k].how == COLL_REDUCE ? (uint64_t)wire_bytes(j->g.codec.sum, j->g.group, tensor_count(t)) : 0;
}

static int open_memory(joined_group *j, member *m, err *e)
{
    for (uint32_t k = 0; k < j->g.n_coll; k++) {
        const uint64_t rows = (uint64_t)j->g.max_rows[m->s->p->tensors[coll_of(m, k)->out].axis],
                       out = out_bytes(j, m, k) * rows, sum = sum_bytes(j, m, k) * rows;
        if (out > m->out_bytes) m->out_bytes = out;
        if (sum > m->sum_bytes) m->sum_bytes = sum;
    }
    int rc = cuda_take(&m->d->q, sizeof(uint32_t), "rows between ranks", &m->odd, e);
    for (int k = 0; k < 2 && !rc; k++) {
        rc = cuda_take(&m->d->q, m->out_bytes, "rows between ranks", &m->outbox[k], e);
        if (!rc) rc = cuda_take(&m->d->q, m->sum_bytes, "rows between ranks", &m->sums[k], e);
    }
    return rc;
}

static int open_member(joined_group *j, int r, err *e)
{
    member *m = &j->m[r];
    m->of = j->g.on[r];
    m->d = cuda_device_of(m->of);
    m->s = j->g.of[r];
    cuda_queue *q = &m->d->q;
    int rc = cuda_done(q, q->cu->cuEventCreate(&m->came, CU_EVENT_UNTIMED), "making an event", e);
    if (!rc) rc = cuda_load_image(q, "join", &m->image, e);
#define X(name)                                                                                                        \
    if (!rc) rc = cuda_find(q, m->image, "join_" #name, &m->name, e);
    KERNEL_LIST_OF_JOIN(X)
#undef X
    return rc ? rc : open_memory(j, m, e);
}

/* Whether each device may read memory of the others; it may then. */
static bool may_read(const joined_group *j)
{
    bool all = true;
    for (int r = 0; r < j->ranks; r++)
        for (int o = 0; o < j->ranks && all; o++) {
            const cuda_queue *q = &j->m[r].d->q, *other = &j->m[o].d->q;
            if (q->context == other->context) continue;
            q->cu->cuCtxSetCurrent(q->context);
            const int code = q->cu->cuCtxEnablePeerAccess(other->context, 0);
            all = code == CU_SUCCESS || code == CU_PEER_ACCESS_ALREADY;
        }
    return all;
}

/* Whether kernels do all that is asked for. */
static bool is_known(const joined_group *j)
{
    bool all = j->ranks <= JOIN_RANKS;
    for (uint32_t k = 0; k < j->g.n_coll && all; k++)
        for (int r = 0; r < j->ranks; r++) {
            const segment *s = j->g.of[r];
            all = all && (j->g.colls[k].how != COLL_REDUCE || s->p->ops[s->ends[k]].in[0]);
        }
    return all;
}

static int open_joined(joined_group **out, const join_group *g, err *e)
{
    joined_group *j = mem_zero(1, sizeof *j);
    *out = NULL;
    if (!j) return err_memory(e, "a group of devices");
    j->g = *g;
    j->ranks = g->ranks;
    j->coded = g->codec.sum != WIRE_F32;
    bool ok = is_known(j);
    int rc = OK;
    for (int r = 0; r < g->ranks && ok && !rc; r++) rc = open_member(j, r, e);
    if (!ok || rc || !may_read(j)) close_joined(j);
    else *out = j;
    return rc;
}

/* ---- a step */

/* Every stream goes on behind where all of them are. */
static int meet(joined_group *j, err *e)
{
    int rc = OK;
    for (int r = 0; r < j->ranks && !rc; r++) {
        cuda_queue *q = &cuda_device_of(j->m[r].of)->q;
        rc = cuda_done(q, q->cu->cuEventRecord(j->m[r].came, q->stream), "recording an event", e);
    }
    for (int r = 0; r < j->ranks && !rc; r++) {
        cuda_queue *q = &cuda_device_of(j->m[r].of)->q;
        for (int o = 0; o < j->ranks && !rc; o++)
            if (o != r)
                rc = cuda_done(q, q->cu->cuStreamWaitEvent(q->stream, j->m[o].came, 0), "waiting for a rank", e);
    }
    return rc;
}

/* The first stream goes on behind all (from: the others behind the first). */
static int gather_streams(joined_group *j, bool from, err *e)
{
    int rc = OK;
    cuda_queue *first = &j->m[0].d->q;
    if (from) {
        cuda_device_of(j->m[0].of);
        rc = cuda_done(first, first->cu->cuEventRecord(j->m[0].came, first->stream), "recording an event", e);
    }
    for (int r = 1; r < j->ranks && !rc; r++) {
        cuda_queue *q = &cuda_device_of(j->m[r].of)->q;
        if (!from) rc = cuda_done(q, q->cu->cuEventRecord(j->m[r].came, q->stream), "recording an event", e);
        if (!from) cuda_device_of(j->m[0].of);
        cuda_queue *waits = from ? q : first;
        const cu_event came = from ? j->m[0].came : j->m[r].came;
        if (!rc) rc = cuda_done(waits, q->cu->cuStreamWaitEvent(waits->stream, came, 0), "waiting for a rank", e);
    }
    return rc;
}

static int64_t rows_of(const joined_group *j, const member *m, uint32_t k, const step *st)
{
    const uint8_t axis = m->s->p->tensors[coll_of(m, k)->out].axis;
    return st->n[axis] < j->g.max_rows[axis] ? st->n[axis] : j->g.max_rows[axis];
}

static join_args args_of(const joined_group *j, int r, uint32_t k)
{
    const member *m = &j->m[r];
    const join_coll *c = &j->g.colls[k];
    const op *o = coll_of(m, k);
    const tensor *t = &m->s->p->tensors[o->out];
    const cuda_segment *s = m->s->compiled;
    join_args a = {.st = (const step *)(uintptr_t)s->step.at,
                   .y = (float *)(uintptr_t)cuda_act_address(s, m->s->p, o->out),
                   .cols = tensor_count(t),
                   .group = j->g.group,
                   .ranks = j->ranks,
                   .rank = r,
                   .axis = t->axis,
                   .block = t->block,
                   .offset = c->offset};
    for (int i = 0; i < j->ranks; i++) {
        a.from[i] = (const uint8_t *)(uintptr_t)j->m[i].outbox[k % 2];
        if (c->of) a.begin[i] = c->of[i].from, a.end[i] = c->of[i].to;
    }
    if (j->coded && c->how == COLL_REDUCE) a.odd = (uint32_t *)(uintptr_t)m->odd;
    return a;
}

static int launch(const member *m, cu_function f, int64_t threads, join_args *a, err *e)
{
    const int64_t blocks = (threads + JOIN_THREADS - 1) / JOIN_THREADS;
    const cuda_grid g = {blocks < 1 ? 1 : blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX, 1, JOIN_THREADS, 0};
    cuda_device_of(m->of);
    return cuda_launch_grid(&m->d->q, f, g, (void *[]){a}, e);
}

static int64_t groups_of(const join_args *a, int64_t rows) { return rows * ((a->cols + a->group - 1) / a->group); }

/* Leaves what rank r gives at COLL k in its outbox. */
static int leave(joined_group *j, int r, uint32_t k, int64_t rows, err *e)
{
    const member *m = &j->m[r];
    const op *o = coll_of(m, k);
    const cu_address x = o->in[0] ? cuda_act_address(m->s->compiled, m->s->p, o->in[0]) : 0;
    if (j->g.colls[k].how == COLL_REDUCE) {
        join_args a = args_of(j, r, k);
        a.y = (float *)(uintptr_t)x;
        a.to = (uint8_t *)(uintptr_t)m->outbox[k % 2];
        a.type = j->g.codec.partial;
        return launch(m, m->encode, groups_of(&a, rows), &a, e);
    }
    const uint64_t bytes = (uint64_t)rows * out_bytes(j, m, k);
    cuda_device_of(m->of);
    return bytes ? cuda_copy(&m->d->q, m->outbox[k % 2], m->d->q.context, x, bytes, e) : OK;
}

/* Rows of the result out of all outboxes. */
static int make_rows(joined_group *j, int r, uint32_t k, int64_t rows, err *e)
{
    const member *m = &j->m[r];
    join_args a = args_of(j, r, k);
    if (j->g.colls[k].how == COLL_OWNER) return launch(m, m->rows, rows * a.cols, &a, e);
    return a.block ? launch(m, m->codes, rows * act_padded(a.cols) / PANEL_K, &a, e)
                   : launch(m, m->columns, rows * a.cols, &a, e);
}

/* The sum of all outboxes, and its codes; chunked: of the rank's chunk. */
static int make_sum(joined_group *j, int r, uint32_t k, int64_t rows, bool chunked, err *e)
{
    const member *m = &j->m[r];
    join_args a = args_of(j, r, k);
    a.chunked = chunked;
    a.type = j->g.codec.partial;
    a.odd = NULL;
    const int64_t groups = groups_of(&a, rows) / (chunked ? j->ranks : 1) + 1;
    int rc = launch(m, m->sum, groups * a.group, &a, e);
    a.type = j->g.codec.sum;
    a.to = (uint8_t *)(uintptr_t)m->sums[k % 2];
    return rc || (!chunked && j->g.codec.sum == WIRE_F32) ? rc : launch(m, m->encode, groups, &a, e);
}

/* What coding has left of the sum. */
static int take_sums(joined_group *j, int r, uint32_t k, int64_t rows, bool chunked, err *e)
{
    const member *m = &j->m[r];
    join_args a = args_of(j, r, k);
    a.chunked = chunked;
    a.type = j->g.codec.sum;
    for (int i = 0; i < j->ranks; i++) a.from[i] = (const uint8_t *)(uintptr_t)j->m[i].sums[k % 2];
    if (!chunked && j->g.codec.sum == WIRE_F32) return OK;
    return launch(m, m->decode, groups_of(&a, rows) * a.group, &a, e);
}

static int hand_over(joined_group *j, uint32_t k, const step *st, err *e)
{
    const int64_t rows = rows_of(j, &j->m[0], k, st);
    const bool sum = j->g.colls[k].how == COLL_REDUCE;
    const uint64_t bytes = (uint64_t)rows * out_bytes(j, &j->m[0], k) * (uint64_t)(j->ranks - 1);
    const bool chunked = sum && (j->g.steps ? j->g.steps == 2 : bytes > ONE_STEP_BYTES);
    int rc = OK;
    if (!rows) return OK;
    for (int r = 0; r < j->ranks && !rc; r++) rc = leave(j, r, k, rows, e);
    if (!rc) rc = meet(j, e);
    for (int r = 0; r < j->ranks && !rc; r++)
        if (!coll_of(&j->m[r], k)->u.coll.left)
            rc = sum ? make_sum(j, r, k, rows, chunked, e) : make_rows(j, r, k, rows, e);
    if (!rc && chunked) rc = meet(j, e);
    for (int r = 0; r < j->ranks && !rc && sum; r++) rc = take_sums(j, r, k, rows, chunked, e);
    return rc;
}

/* All stretches on all devices, behind one another. */
static int launch_all(joined_group *j, const step *st, err *e)
{
    int rc = OK;
    for (int r = 0; r < j->ranks && !rc && j->coded; r++) {
        cuda_queue *q = &cuda_device_of(j->m[r].of)->q;
        rc = cuda_done(q, q->cu->cuMemsetD32Async(j->m[r].odd, 0, 1, q->stream), "clearing memory", e);
    }
    for (uint32_t i = 0; i <= j->g.n_coll && !rc; i++) {
        for (int r = 0; r < j->ranks && !rc; r++)
            rc = cuda_stretch_start(cuda_device_of(j->m[r].of), j->m[r].s->compiled, i, st, e);
        if (!rc && i < j->g.n_coll) rc = hand_over(j, i, st, e);
    }
    return rc;
}

static uint32_t picks_of(const joined_group *j)
{
    uint32_t ranks = 0;
    for (int r = 0; r < j->ranks; r++) ranks |= (uint32_t)segment_of(&j->m[r])->picks << r;
    return ranks;
}

static bool is_same(const joined_group *j, const joint_graph *g, const step *st)
{
    bool same = g->uses && !memcmp(g->n, st->n, sizeof g->n) && g->picks == picks_of(j);
    for (int r = 0; r < j->ranks && same; r++) same = g->step[r] == segment_of(&j->m[r])->step.at;
    return same;
}

/* The entry of such a step; else the least recently used one becomes it. */
static joint_graph *entry_of(joined_group *j, const step *st)
{
    joint_graph *to = j->graphs;
    for (int i = 0; i < GRAPHS; i++) {
        if (is_same(j, &j->graphs[i], st)) to = &j->graphs[i];
        if (is_same(j, to, st)) break;
        if (j->graphs[i].last < to->last) to = &j->graphs[i];
    }
    if (!is_same(j, to, st)) {
        if (to->exec) j->m[0].d->q.cu->cuGraphExecDestroy(to->exec);
        *to = (joint_graph){0};
        memcpy(to->n, st->n, sizeof to->n);
        for (int r = 0; r < j->ranks; r++) to->step[r] = segment_of(&j->m[r])->step.at;
        to->picks = picks_of(j);
    }
    to->uses++;
    to->last = ++j->turn;
    return to;
}

/* Captures the step on all devices: the first stream's capture takes the others in. */
static int capture(joined_group *j, joint_graph *g, const step *st, err *e)
{
    cu_graph graph = NULL;
    cuda_queue *q = &cuda_device_of(j->m[0].of)->q;
    int rc = cuda_done(q, q->cu->cuStreamBeginCapture_v2(q->stream, CU_CAPTURE_THREAD), "capturing a step", e);
    if (rc) return rc;
    rc = gather_streams(j, true, e);
    if (!rc) rc = launch_all(j, st, e);
    if (!rc) rc = gather_streams(j, false, e);
    cuda_device_of(j->m[0].of);
    const int code = q->cu->cuStreamEndCapture(q->stream, &graph);
    if (!rc) rc = cuda_done(q, code, "capturing a step", e);
    if (!rc) rc = cuda_done(q, q->cu->cuGraphInstantiateWithFlags(&g->exec, graph, 0), "preparing a step", e);
    if (rc) g->exec = NULL;
    if (graph) q->cu->cuGraphDestroy(graph);
    return rc;
}

static int start_joined(joined_group *j, const step *st, err *e)
{
    int rc = OK;
    bool wide = false;
    for (int r = 0; r < j->ranks && !rc; r++) {
        cuda_device *d = cuda_device_of(j->m[r].of);
        cuda_segment *s = segment_of(&j->m[r]);
        cuda_wide_prepare(d, st);
        wide = wide || d->wide.due;
        s->picks = cuda_best_asked(s, st);
        rc = cuda_step_send(d, s, st, e);
    }
    if (rc || wide) return rc ? rc : launch_all(j, st, e);
    const step most = cuda_step_rounded(j->m[0].d, st);
    joint_graph *g = entry_of(j, &most);
    if (!g->exec && g->uses < 2) return launch_all(j, &most, e);
    if (!g->exec) rc = capture(j, g, &most, e);
    if (!rc) rc = gather_streams(j, false, e);
    cuda_queue *q = &cuda_device_of(j->m[0].of)->q;
    if (!rc) rc = cuda_done(q, q->cu->cuGraphLaunch(g->exec, q->stream), "starting a step", e);
    return rc ? rc : gather_streams(j, true, e);
}

static int wait_joined(joined_group *j, bool *odd, err *e)
{
    int rc = OK;
    *odd = false;
    for (int r = 0; r < j->ranks && !rc; r++) {
        uint32_t was = 0;
        cuda_queue *q = &cuda_device_of(j->m[r].of)->q;
        rc = j->coded ? cuda_fetch(q, &was, j->m[r].odd, sizeof was, e) : cuda_wait(q, e);
        *odd = *odd || was;
    }
    return rc;
}

const join_ways cuda_join_ways = {
    .open = open_joined, .close = close_joined, .start = start_joined, .wait = wait_joined};
