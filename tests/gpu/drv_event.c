/* drv_event.c - events: how far a stream had come when they were recorded. Times are of the machine's clock and mean
 * nothing but that they go forward. */
#include "tests/gpu/drv_state.h"

#include <stdlib.h>
#include <time.h>

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

CUresult cuEventCreate(CUevent *e, unsigned int flags)
{
    CUresult r = drv_enter("cuEventCreate", CALL_CONTEXT);
    if (r) return drv_leave(r);
    *e = calloc(1, sizeof **e);
    if (!*e) abort();
    (*e)->cx = drv_current();
    (*e)->timed = !(flags & EVENT_DISABLE_TIMING);
    return drv_leave(r);
}

CUresult cuEventDestroy_v2(CUevent e)
{
    CUresult r = drv_enter("cuEventDestroy", CALL_CONTEXT);
    if (!r && !e) r = CUDA_ERROR_INVALID_HANDLE;
    if (r) return drv_leave(r);
    free(e->tail);
    free(e);
    return drv_leave(r);
}

CUresult cuEventRecord(CUevent e, CUstream s)
{
    CUresult r = drv_enter("cuEventRecord", CALL_CONTEXT);
    stream *t = r ? NULL : stream_of(s);
    if (!r && (!t || !e)) r = CUDA_ERROR_INVALID_HANDLE;
    if (!r && e->cx != t->cx) r = CUDA_ERROR_INVALID_HANDLE;
    if (r) return drv_leave(r);
    e->capture = NULL;
    if (t->capture) {
        capture_record(e, t);
        return drv_leave(r);
    }
    r = stream_add(t, op_new(OP_NOTHING, t->cx));
    e->recorded = true;
    e->s = t;
    e->count = t->queued;
    e->at = now_ms();
    return drv_leave(r);
}

CUresult cuEventSynchronize(CUevent e)
{
    CUresult r = drv_enter("cuEventSynchronize", CALL_CONTEXT);
    drv_count.synchronizations++;
    if (!r && !e) r = CUDA_ERROR_INVALID_HANDLE;
    if (!r && capture_of(e)) e->capture->broken = true, r = CUDA_ERROR_CAPTURED_EVENT;
    if (!r && e->recorded) r = stream_run_until(e->s, e->count);
    return drv_leave(r);
}

CUresult cuEventQuery(CUevent e)
{
    CUresult r = drv_enter("cuEventQuery", CALL_CONTEXT);
    if (!r && !e) r = CUDA_ERROR_INVALID_HANDLE;
    if (!r && capture_of(e)) e->capture->broken = true, r = CUDA_ERROR_CAPTURED_EVENT;
    if (r || !e->recorded) return drv_leave(r);
    if (e->s->done < e->count) stream_progress();
    op_idle();
    if (e->cx->broken) return drv_leave(e->cx->broken);
    return drv_leave(e->s->done < e->count ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS);
}

CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b)
{
    CUresult r = drv_enter("cuEventElapsedTime", CALL_CONTEXT);
    if (!r && (!a || !b || !a->timed || !b->timed || !a->recorded || !b->recorded)) r = CUDA_ERROR_INVALID_HANDLE;
    if (!r && (a->s->done < a->count || b->s->done < b->count)) r = CUDA_ERROR_NOT_READY;
    if (!r) *ms = (float)(b->at - a->at);
    return drv_leave(r);
}

/* cuda.h of CUDA 13 gives it this name. */
CUresult cuEventElapsedTime_v2(float *ms, CUevent a, CUevent b) { return cuEventElapsedTime(ms, a, b); }
