/* cuda_join.c - the ranks of a group of devices as one (row_ways.join): one thread launches a step on all
 * of them, and the rows of a COLL go from device to device by peer access, not through the host.
 *
 * A COLL is a kernel a rank, and kernels meet on the devices (join.cu). Where ranks share a device, or a device is in
 * two groups, a kernel could wait for one that has no room: there each part of it is a kernel, and streams meet between
 * them by events. Memory that ranks leave things in is there twice, used in turn: who writes it again has met those
 * that read it. A step that is started a second time with about as many rows is one graph over all devices. */
#include "cuda/join_args.h"

#include "base/mem.h"
#include "cuda/cuda_state.h"
#include "cuda/nccl.h"
#include "tensor/act_q8.h"

#include <pthread.h>
#include <string.h>

/* Bytes of codes that a rank reads of the others at most where all sum all; else it sums a chunk. */
enum { ONE_STEP_BYTES = 64 << 10 };
enum { GRAPHS = 16 };

#define KERNEL_LIST_OF_JOIN(X) X(columns) X(codes) X(rows) X(reduce)

typedef struct member {
    cuda_device *d;
    dev *of;
    const segment *s;
    cu_module image;
#define X(name) cu_function name;
    KERNEL_LIST_OF_JOIN(X)
#undef X
    cu_event came;              /* so far its stream has come */
    cu_address out[2], sums[2]; /* rows or codes that it leaves; codes of sums */
    cu_address meeting;         /* a join_meeting */
    uint64_t out_bytes, sum_bytes;
} member;

/* A step as it was started before with about so many rows. */
typedef struct joint_graph {
    int32_t n[AXIS_COUNT];
    cu_address step[JOIN_RANKS]; /* where the steps were */
    int32_t picks[JOIN_RANKS];   /* best logits that they bring */
    uint64_t uses, last;
    cu_graph_exec exec; /* NULL: not captured yet */
} joint_graph;

struct joined_group {
    join_group g;
    int ranks;
    bool coded; /* sums pass coded: rows that are not finite are looked for */
    bool alone; /* each rank has a device for itself: kernels meet */
    bool stale; /* the last step has failed, or rows were not finite: meetings begin anew */
    int64_t blocks;
    uint32_t handed; /* COLLs of this step so far */
    member m[JOIN_RANKS];
    joint_graph graphs[GRAPHS];
    uint64_t turn;
};

/* Devices of the driver that have a rank whose kernels meet others'. */
static pthread_mutex_t taken_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t taken[4];

/* ---- opening */

/* Whether no device is taken, and each is there once; they are taken then. */
static bool take_devices(const joined_group *j)
{
    uint64_t mine[4] = {0};
    bool free = true;
    pthread_mutex_lock(&taken_lock);
    for (int r = 0; r < j->ranks; r++) {
        const uint32_t at = (uint32_t)j->m[r].d->q.device, word = at / 64 % 4;
        const uint64_t bit = (uint64_t)1 << at % 64;
        free = free && !((mine[word] | taken[word]) & bit);
        mine[word] |= bit;
    }
    for (int i = 0; i < 4 && free; i++) taken[i] |= mine[i];
    pthread_mutex_unlock(&taken_lock);
    return free;
}

static void give_devices(const joined_group *j)
{
    pthread_mutex_lock(&taken_lock);
    for (int r = 0; r < j->ranks && j->alone; r++) {
        const uint32_t at = (uint32_t)j->m[r].d->q.device;
        taken[at / 64 % 4] &= ~((uint64_t)1 << at % 64);
    }
    pthread_mutex_unlock(&taken_lock);
}

static bool any_hangs(const joined_group *j)
{
    bool any = false;
    for (int r = 0; r < j->ranks; r++) any = any || (j->m[r].d && cuda_hangs(j->m[r].d->q.device));
    return any;
}

static void close_joined(joined_group *j)
{
    for (int i = 0; i < GRAPHS; i++)
        if (j->graphs[i].exec && !any_hangs(j)) j->m[0].d->q.cu->cuGraphExecDestroy(j->graphs[i].exec);
    for (int r = 0; r < j->ranks; r++) {
        member *m = &j->m[r];
        if (!m->d) continue;
        cuda_device_of(m->of);
        cuda_wait(&m->d->q, &(err){0});
    }
    for (int r = 0; r < j->ranks; r++) {
        member *m = &j->m[r];
        if (!m->d) continue;
        cuda_device_of(m->of);
        for (int k = 0; k < 2; k++) {
            cuda_give(&m->d->q, &m->out[k], m->out_bytes);
            cuda_give(&m->d->q, &m->sums[k], m->sum_bytes);
        }
        cuda_give(&m->d->q, &m->meeting, sizeof(join_meeting));
        if (cuda_hangs(m->d->q.device)) continue;
        if (m->came) m->d->q.cu->cuEventDestroy_v2(m->came);
        if (m->image) m->d->q.cu->cuModuleUnload(m->image);
    }
    give_devices(j);
    mem_free(j);
}

static cuda_segment *segment_of(const member *m) { return m->s->compiled; }

static const op *coll_of(const member *m, uint32_t k) { return &m->s->p->ops[m->s->ends[k]]; }

/* Bytes of codes of a sum's rows as join.cu lays them, without scales; of the scales. */
static uint64_t codes_bytes(const joined_group *j, int type, uint64_t groups)
{
    return groups * (uint64_t)join_stride(type, j->g.group);
}
static uint64_t groups_bytes(const joined_group *j, int type, uint64_t groups)
{
    return codes_bytes(j, type, groups) + groups * sizeof(uint32_t);
}

static uint64_t row_groups(const joined_group *j, const tensor *t)
{
    return (uint64_t)((tensor_count(t) + j->g.group - 1) / j->g.group);
}

static const tensor *result_of(const member *m, uint32_t k) { return &m->s->p->tensors[coll_of(m, k)->out]; }

/* Bytes of a row that a rank leaves at COLL k, and of the codes of a sum. */
static uint64_t out_bytes(const joined_group *j, const member *m, uint32_t k)
{
    const op *o = coll_of(m, k);
    const tensor *t = &m->s->p->tensors[o->in[0]];
    if (j->g.colls[k].how == COLL_REDUCE) return groups_bytes(j, j->g.codec.partial, row_groups(j, result_of(m, k)));
    if (!o->in[0]) return 0;
    return t->block ? act_row_bytes(tensor_count(t), t->block) : (uint64_t)tensor_count(t) * sizeof(float);
}

static uint64_t sum_bytes(const joined_group *j, const member *m, uint32_t k)
{
    if (j->g.colls[k].how != COLL_REDUCE) return 0;
    return groups_bytes(j, j->g.codec.sum, row_groups(j, result_of(m, k)));
}

static int64_t most_rows(const joined_group *j, const member *m, uint32_t k)
{
    return j->g.max_rows[result_of(m, k)->axis];
}

static int open_memory(joined_group *j, member *m, err *e)
{
    for (uint32_t k = 0; k < j->g.n_coll; k++) {
        const uint64_t rows = (uint64_t)most_rows(j, m, k), out = out_bytes(j, m, k) * rows,
                       sum = sum_bytes(j, m, k) * rows;
        if (out > m->out_bytes) m->out_bytes = out;
        if (sum > m->sum_bytes) m->sum_bytes = sum;
    }
    int rc = cuda_take(&m->d->q, sizeof(join_meeting), "rows between ranks", &m->meeting, e);
    for (int k = 0; k < 2 && !rc; k++) {
        rc = cuda_take(&m->d->q, m->out_bytes, "rows between ranks", &m->out[k], e);
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
    const int64_t room = (int64_t)JOIN_PER_PROCESSOR * m->d->w->kernels.processors;
    if (room < j->blocks) j->blocks = room;
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
    j->stale = true;
    j->blocks = JOIN_BLOCKS;
    bool ok = is_known(j);
    int rc = OK;
    for (int r = 0; r < g->ranks && ok && !rc; r++) rc = open_member(j, r, e);
    if (!ok || rc || !may_read(j)) {
        close_joined(j);
        return rc;
    }
    j->alone = take_devices(j);
    *out = j;
    return OK;
}

/* ---- a step */

/* Every stream goes on behind where all of them are. */
static int meet(joined_group *j, err *e)
{
    int rc = OK;
    for (int r = 0; r < j->ranks && !rc; r++) {
        cuda_queue *q = &cuda_device_of(j->m[r].of)->q;
        rc = cuda_done(q, q->cu->cuEventRecord(j->m[r].came, cuda_stream_of(q)), "recording an event", e);
    }
    for (int r = 0; r < j->ranks && !rc; r++) {
        cuda_queue *q = &cuda_device_of(j->m[r].of)->q;
        for (int o = 0; o < j->ranks && !rc; o++)
            if (o != r)
                rc = cuda_done(q, q->cu->cuStreamWaitEvent(cuda_stream_of(q), j->m[o].came, 0), "waiting for a rank",
                               e);
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
        rc = cuda_done(first, first->cu->cuEventRecord(j->m[0].came, cuda_stream_of(first)), "recording an event", e);
    }
    for (int r = 1; r < j->ranks && !rc; r++) {
        cuda_queue *q = &cuda_device_of(j->m[r].of)->q;
        if (!from) rc = cuda_done(q, q->cu->cuEventRecord(j->m[r].came, cuda_stream_of(q)), "recording an event", e);
        if (!from) cuda_device_of(j->m[0].of);
        cuda_queue *waits = from ? q : first;
        const cu_event came = from ? j->m[0].came : j->m[r].came;
        if (!rc)
            rc = cuda_done(waits, q->cu->cuStreamWaitEvent(cuda_stream_of(waits), came, 0), "waiting for a rank", e);
    }
    return rc;
}

static int64_t rows_of(const joined_group *j, const member *m, uint32_t k, const step *st)
{
    const int64_t n = st->n[result_of(m, k)->axis], most = most_rows(j, m, k);
    return n < most ? n : most;
}

static join_args args_of(const joined_group *j, int r, uint32_t k)
{
    const member *m = &j->m[r];
    const join_coll *c = &j->g.colls[k];
    const op *o = coll_of(m, k);
    const tensor *t = result_of(m, k);
    const cuda_segment *s = m->s->compiled;
    const uint64_t groups = row_groups(j, t) * (uint64_t)most_rows(j, m, k);
    join_args a = {.st = (const step *)(uintptr_t)s->step.at,
                   .x = (const uint8_t *)(uintptr_t)(o->in[0] ? cuda_act_address(s, m->s->p, o->in[0]) : 0),
                   .y = (float *)(uintptr_t)(o->u.coll.left ? 0 : cuda_act_address(s, m->s->p, o->out)),
                   .cols = tensor_count(t),
                   .group = j->g.group,
                   .heads = (int64_t)codes_bytes(j, j->g.codec.partial, groups),
                   .sum_heads = (int64_t)codes_bytes(j, j->g.codec.sum, groups),
                   .ranks = j->ranks,
                   .rank = r,
                   .axis = t->axis,
                   .block = t->block,
                   .offset = c->offset,
                   .partial = j->g.codec.partial,
                   .sum = j->g.codec.sum};
    for (int i = 0; i < j->ranks; i++) {
        a.meeting[i] = (join_meeting *)(uintptr_t)j->m[i].meeting;
        a.out[i] = (uint8_t *)(uintptr_t)j->m[i].out[j->handed % 2];
        a.sums[i] = (uint8_t *)(uintptr_t)j->m[i].sums[j->handed % 2];
        if (c->of) a.begin[i] = c->of[i].from, a.end[i] = c->of[i].to;
    }
    return a;
}

/* Blocks of a kernel, as many on all ranks. */
static int64_t blocks_of(const joined_group *j, uint32_t k, int64_t rows)
{
    const tensor *t = result_of(&j->m[0], k);
    const bool sum = j->g.colls[k].how == COLL_REDUCE;
    const int64_t each = sum        ? JOIN_THREADS / 32
                         : t->block ? (int64_t)JOIN_THREADS * PANEL_K
                                    : (int64_t)JOIN_THREADS * 4;
    const int64_t n = (rows * (sum ? (int64_t)row_groups(j, t) : tensor_count(t)) + each - 1) / each,
                  least = n < JOIN_BLOCKS_LEAST ? JOIN_BLOCKS_LEAST : n;
    return least < j->blocks ? least : j->blocks;
}

static int launch(joined_group *j, int r, uint32_t k, int64_t blocks, bool two_steps, int parts, err *e)
{
    const member *m = &j->m[r];
    const uint8_t how = j->g.colls[k].how;
    join_args a = args_of(j, r, k);
    a.parts = parts;
    a.two_steps = two_steps;
    const cu_function f = how == COLL_REDUCE  ? m->reduce
                          : how == COLL_OWNER ? m->rows
                          : a.block           ? m->codes
                                              : m->columns;
    cuda_device_of(m->of);
    return cuda_launch_grid(&m->d->q, f, (cuda_grid){blocks, 1, JOIN_THREADS, 0}, (void *[]){&a}, e);
}

static int hand_over(joined_group *j, uint32_t k, const step *st, err *e)
{
    const int64_t rows = rows_of(j, &j->m[0], k, st), blocks = blocks_of(j, k, rows);
    const uint64_t bytes = (uint64_t)rows * out_bytes(j, &j->m[0], k) * (uint64_t)(j->ranks - 1);
    const bool two_steps = j->g.colls[k].how == COLL_REDUCE && (j->g.steps ? j->g.steps == 2 : bytes > ONE_STEP_BYTES);
    const int all = JOIN_LEAVE | JOIN_MAKE | (two_steps ? JOIN_TAKE : 0);
    int rc = OK;
    if (!rows) return OK;
    for (int part = j->alone ? all : JOIN_LEAVE; part <= all && !rc; part <<= 1) {
        for (int r = 0; r < j->ranks && !rc; r++) rc = launch(j, r, k, blocks, two_steps, part, e);
        if (!rc && part << 1 <= all) rc = meet(j, e);
    }
    j->handed++;
    return rc;
}

/* Clears the ranks' meetings where a step has failed, or told that rows were not finite. */
static int begin_meetings(joined_group *j, err *e)
{
    int rc = OK;
    if (!j->stale) return OK;
    for (int r = 0; r < j->ranks && !rc; r++) rc = cuda_wait(&cuda_device_of(j->m[r].of)->q, e);
    for (int r = 0; r < j->ranks && !rc; r++) {
        cuda_queue *q = &cuda_device_of(j->m[r].of)->q;
        rc = cuda_done(q, q->cu->cuMemsetD32Async(j->m[r].meeting, 0, sizeof(join_meeting) / 4, cuda_stream_of(q)),
                       "clearing memory", e);
    }
    for (int r = 0; r < j->ranks && !rc; r++) rc = cuda_wait(&cuda_device_of(j->m[r].of)->q, e);
    j->stale = rc != OK;
    return rc;
}

/* All stretches on all devices, behind one another. */
static int launch_all(joined_group *j, const step *st, err *e)
{
    int rc = OK;
    j->handed = 0;
    for (uint32_t i = 0; i <= j->g.n_coll && !rc; i++) {
        for (int r = 0; r < j->ranks && !rc; r++)
            rc = cuda_stretch_start(cuda_device_of(j->m[r].of), j->m[r].s->compiled, i, st, e);
        if (!rc && i < j->g.n_coll) rc = hand_over(j, i, st, e);
    }
    return rc;
}

static bool is_same(const joined_group *j, const joint_graph *g, const step *st)
{
    bool same = g->uses && !memcmp(g->n, st->n, sizeof g->n);
    for (int r = 0; r < j->ranks && same; r++) {
        const cuda_segment *s = segment_of(&j->m[r]);
        same = g->step[r] == s->step.at && g->picks[r] == s->picks;
    }
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
        if (to->exec && !any_hangs(j)) j->m[0].d->q.cu->cuGraphExecDestroy(to->exec);
        *to = (joint_graph){0};
        memcpy(to->n, st->n, sizeof to->n);
        for (int r = 0; r < j->ranks; r++) {
            to->step[r] = segment_of(&j->m[r])->step.at;
            to->picks[r] = segment_of(&j->m[r])->picks;
        }
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
    int rc = cuda_done(q, q->cu->cuStreamBeginCapture_v2(cuda_stream_of(q), CU_CAPTURE_THREAD), "capturing a step", e);
    if (rc) return rc;
    rc = gather_streams(j, true, e);
    if (!rc) rc = launch_all(j, st, e);
    if (!rc) rc = gather_streams(j, false, e);
    cuda_device_of(j->m[0].of);
    const int code = q->cu->cuStreamEndCapture(cuda_stream_of(q), &graph);
    if (!rc) rc = cuda_done(q, code, "capturing a step", e);
    if (!rc) rc = cuda_done(q, q->cu->cuGraphInstantiateWithFlags(&g->exec, graph, 0), "preparing a step", e);
    if (rc) g->exec = NULL;
    if (graph) q->cu->cuGraphDestroy(graph);
    return rc;
}

static int start_step(joined_group *j, const step *st, err *e)
{
    int rc = begin_meetings(j, e);
    bool wide = false;
    for (int r = 0; r < j->ranks && !rc; r++) {
        cuda_device *d = cuda_device_of(j->m[r].of);
        cuda_segment *s = segment_of(&j->m[r]);
        cuda_wide_prepare(d, st);
        cuda_note_rows(&d->q, st);
        wide = wide || d->wide.due;
        s->picks = cuda_best_asked(d, s, st);
        rc = cuda_step_send(d, s, st, e);
    }
    if (rc || wide) return rc ? rc : launch_all(j, st, e);
    const step most = cuda_step_rounded(j->m[0].d, st);
    joint_graph *g = entry_of(j, &most);
    if (!g->exec && g->uses < 2) return launch_all(j, &most, e);
    if (!g->exec) rc = capture(j, g, &most, e);
    if (!rc) rc = gather_streams(j, false, e);
    cuda_queue *q = &cuda_device_of(j->m[0].of)->q;
    if (!rc) rc = cuda_done(q, q->cu->cuGraphLaunch(g->exec, cuda_stream_of(q)), "starting a step", e);
    return rc ? rc : gather_streams(j, true, e);
}

static int start_joined(joined_group *j, const step *st, err *e)
{
    const int rc = start_step(j, st, e);
    j->stale = j->stale || rc;
    return rc;
}

static int wait_joined(joined_group *j, bool *odd, err *e)
{
    int rc = OK;
    bool stopped = false;
    *odd = false;
    for (int r = 0; r < j->ranks && !rc; r++) {
        uint32_t own[2] = {0}; /* odd, stopped */
        cuda_queue *q = &cuda_device_of(j->m[r].of)->q;
        rc = j->coded || j->alone ? cuda_fetch(q, own, j->m[r].meeting + offsetof(join_meeting, odd), sizeof own, e)
                                  : cuda_wait(q, e);
        *odd = *odd || own[0];
        stopped = stopped || own[1];
    }
    if (!rc && stopped)
        rc = err_set(e, ERR_IO, "a device of a group has not done its part of a step: the others waited %d s",
                     JOIN_PATIENCE);
    j->stale = j->stale || rc || *odd;
    for (int r = 0; r < j->ranks && any_hangs(j); r++) cuda_hang(&j->m[r].d->q); /* those that wait for it never end */
    return rc;
}

const join_ways cuda_join_ways = {
    .open = open_joined, .close = close_joined, .start = start_joined, .wait = wait_joined, .library = &nccl_ways};
