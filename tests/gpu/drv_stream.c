/* drv_stream.c - streams: work waits until somebody waits for it, then runs in an order that the seed chooses among all
 * that may run. */
#include "tests/gpu/drv_state.h"

#include <stdlib.h>
#include <string.h>

#include "tests/gpu/ptx_lex.h"

static context *contexts[64]; /* that have streams */
static int n_context;

static uint64_t chance(void)
{
    static uint64_t state;
    static bool seeded;
    if (!seeded) state = drv_set.seed;
    seeded = true;
    return machine_random(&state);
}

void stream_know_context(context *cx)
{
    for (int i = 0; i < n_context; i++)
        if (contexts[i] == cx) return;
    if (n_context == 64) abort();
    contexts[n_context++] = cx;
}

stream *stream_of(CUstream s)
{
    context *cx = drv_current();
    if ((uintptr_t)s <= 2) return cx->null_stream; /* 0, CU_STREAM_LEGACY; per-thread streams are taken for it too */
    return s->alive ? s : NULL;
}

static void add_wait(op *o, stream *s, uint64_t count)
{
    if (s->done >= count) return;
    o->waits = realloc(o->waits, sizeof *o->waits * (size_t)(o->n_wait + 1));
    if (!o->waits) abort();
    o->waits[o->n_wait].s = s;
    o->waits[o->n_wait++].count = count;
}

/* The null stream and blocking streams wait for each other. */
static void order_with_null(stream *s, op *o)
{
    context *cx = s->cx;
    if (s != cx->null_stream) {
        if (s->blocking) add_wait(o, cx->null_stream, cx->null_stream->queued);
        return;
    }
    for (stream *t = cx->streams; t; t = t->next)
        if (t != s && t->blocking) add_wait(o, t, t->queued);
}

static bool blocking_capture(const context *cx)
{
    for (const stream *t = cx->streams; t; t = t->next)
        if (t->capture && t->blocking) return true;
    return false;
}

CUresult stream_add(stream *s, op *o)
{
    if (s->capture) return capture_add(s, o);
    if (s == s->cx->null_stream && blocking_capture(s->cx)) {
        op_free(o);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    order_with_null(s, o);
    if (s->last) s->last->next = o;
    else s->first = o;
    s->last = o;
    s->queued++;
    return CUDA_SUCCESS;
}

static bool may_run(const stream *s)
{
    if (!s->first) return false;
    for (int i = 0; i < s->first->n_wait; i++)
        if (s->first->waits[i].s->done < s->first->waits[i].count) return false;
    return true;
}

/* A turn of the stream's first work, or of kernels behind it that may begin. */
static void run_some(stream *s)
{
    op *o = s->first;
    while (o->next && op_lets_begin(o, o->next) && chance() & 1) {
        o->next->held = true;
        o = o->next;
    }
    if (!o->ended && !op_step(o)) return;
    o->ended = true;
    if (o != s->first) return;
    s->first = o->next;
    if (!s->first) s->last = NULL;
    else s->first->held = false;
    s->done++;
    op_free(o);
}

bool stream_progress(void)
{
    int n = 0;
    stream *chosen = NULL;
    for (int i = 0; i < n_context; i++)
        for (stream *s = contexts[i]->streams; s; s = s->next)
            if (may_run(s) && chance() % (uint64_t)++n == 0) chosen = s;
    if (chosen) run_some(chosen);
    return chosen != NULL;
}

/* True when s itself or a stream that its first work waits for could go on; a step of it is done. */
static bool step_towards(stream *s, int depth)
{
    if (!s->first || depth > 64) return false;
    if (may_run(s)) return run_some(s), true;
    for (int i = 0; i < s->first->n_wait; i++)
        if (s->first->waits[i].s->done < s->first->waits[i].count && step_towards(s->first->waits[i].s, depth + 1))
            return true;
    return false;
}

/* The same for some ms at most: CUDA_ERROR_NOT_READY. */
static CUresult run_for(stream *s, uint64_t count, bool limited)
{
    enum { NS = 20000000 };
    context *cx = s->cx;
    const uint64_t start = drv_now();
    /* Half of the time only what is waited for runs, and what a kernel may wait for; half of the time anything. */
    const bool lazy = chance() & 1;
    while (s->done < count && !cx->broken) {
        if (!(lazy ? step_towards(s, 0) : stream_progress())) {
            if (lazy && stream_progress()) continue;
            drv_say("a stream waits for work that nobody has queued");
            return CUDA_ERROR_LAUNCH_FAILED;
        }
        if (lazy && op_waits()) stream_progress();
        op_idle();
        drv_breathe();
        if (limited && s->done < count && drv_now() - start > NS) return cx->broken ? cx->broken : CUDA_ERROR_NOT_READY;
    }
    return cx->broken;
}

CUresult stream_run_until(stream *s, uint64_t count) { return run_for(s, count, false); }

CUresult stream_run_context(context *cx)
{
    for (stream *s = cx->streams; s; s = s->next) {
        const CUresult r = stream_run_until(s, s->queued);
        if (r) return r;
    }
    return cx->broken;
}

void stream_leave_capture(const capture *c)
{
    for (int i = 0; i < n_context; i++)
        for (stream *s = contexts[i]->streams; s; s = s->next)
            if (s->capture == c) s->capture = NULL;
}

void stream_forget_context(context *cx)
{
    for (int i = 0; i < n_context; i++)
        if (contexts[i] == cx) {
            contexts[i] = contexts[--n_context];
            break;
        }
    while (cx->streams) {
        stream *s = cx->streams;
        cx->streams = s->next;
        while (s->first) {
            op *o = s->first;
            s->first = o->next;
            op_free(o);
        }
        free(s->tail);
        free(s);
    }
}

CUresult cuStreamCreate(CUstream *s, unsigned int flags)
{
    CUresult r = drv_enter("cuStreamCreate", CALL_CONTEXT);
    if (!r && flags > STREAM_NON_BLOCKING) r = CUDA_ERROR_INVALID_VALUE;
    if (r) return drv_leave(r);
    context *cx = drv_current();
    *s = calloc(1, sizeof **s);
    if (!*s) abort();
    **s = (stream){.cx = cx, .blocking = !(flags & STREAM_NON_BLOCKING), .alive = true, .next = cx->streams};
    cx->streams = *s;
    return drv_leave(r);
}

CUresult cuStreamDestroy_v2(CUstream s)
{
    CUresult r = drv_enter("cuStreamDestroy", CALL_CONTEXT);
    stream *t = r ? NULL : stream_of(s);
    if (!r && (!t || t == t->cx->null_stream)) r = CUDA_ERROR_INVALID_HANDLE;
    if (!r && t->capture) r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (!r) t->alive = false; /* its work still runs */
    return drv_leave(r);
}

CUresult cuStreamSynchronize(CUstream s)
{
    CUresult r = drv_enter("cuStreamSynchronize", CALL_CONTEXT);
    stream *t = r ? NULL : stream_of(s);
    drv_count.synchronizations++;
    if (!r && !t) r = CUDA_ERROR_INVALID_HANDLE;
    if (!r && t->capture) t->capture->broken = true, r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (!r) r = stream_run_until(t, t->queued);
    return drv_leave(r);
}

CUresult cuStreamQuery(CUstream s)
{
    static _Thread_local bool again; /* this thread asks until it is there: how often depends on the time */
    CUresult r = drv_enter("cuStreamQuery", CALL_CONTEXT | (again ? CALL_AGAIN : 0));
    stream *t = r ? NULL : stream_of(s);
    drv_count.synchronizations += !again;
    again = false;
    if (!r && !t) r = CUDA_ERROR_INVALID_HANDLE;
    if (!r && t->capture) t->capture->broken = true, r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (!r) r = run_for(t, t->queued, true);
    again = r == CUDA_ERROR_NOT_READY;
    return drv_leave(r);
}

CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned int flags)
{
    (void)flags;
    CUresult r = drv_enter("cuStreamWaitEvent", CALL_CONTEXT);
    stream *t = r ? NULL : stream_of(s);
    if (!r && (!t || !e)) r = CUDA_ERROR_INVALID_HANDLE;
    if (r) return drv_leave(r);
    if (capture_of(e)) return drv_leave(capture_wait(t, e));
    if (t->capture && e->recorded) return t->capture->broken = true, drv_leave(CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    if (!e->recorded) return drv_leave(CUDA_SUCCESS);
    op *o = op_new(OP_NOTHING, t->cx);
    add_wait(o, e->s, e->count);
    return drv_leave(stream_add(t, o));
}
