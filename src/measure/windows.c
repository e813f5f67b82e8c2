/* windows.c - see windows.h. */
#include "measure/windows.h"

#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

static int check_windows(const engine *g, int64_t total, const windows *w, err *e)
{
    if (!engine_describe(g)->generates)
        return err_set(e, ERR_USAGE, "this model does not say what comes next in a text");
    if (w->window < 2 || w->window > engine_describe(g)->ctx)
        return err_set(e, ERR_USAGE, "a window of %" PRId64 " tokens does not fit the context of %d", w->window,
                       engine_describe(g)->ctx);
    if (w->stride < 0 || w->stride > w->window)
        return err_set(e, ERR_USAGE, "a stride of %" PRId64 " for windows of %" PRId64, w->stride, w->window);
    if (total < (w->stride ? 2 : w->window))
        return err_set(e, ERR_USAGE,
                       "the text has %" PRId64 " tokens, one window needs %" PRId64 " (--ctx makes it smaller)", total,
                       w->window);
    return OK;
}

int windows_each(const engine *g, const int32_t *ids, size_t n, const windows *w, window_fn fn, void *ctx, err *e)
{
    int64_t total = (int64_t)n, step = w->stride ? w->stride : w->window, scored = 1;
    int rc = check_windows(g, total, w, e);
    if (rc) return rc;
    int32_t *copy = mem_array((size_t)w->window, sizeof *copy);
    if (!copy) return err_memory(e, "a window");
    for (int64_t begin = 0; !rc; begin += step) {
        int64_t end = begin + w->window < total ? begin + w->window : total;
        if (!w->stride && begin + w->window > total) break;
        /* with strides: from the row before the first token not scored yet */
        int64_t first = w->stride ? scored - 1 - begin : w->window / 2;
        memcpy(copy, ids + begin, (size_t)(end - begin) * sizeof *copy);
        if (!w->stride && w->bos >= 0) copy[0] = w->bos;
        rc = fn(ctx, copy, end - begin, first, e);
        scored = end;
        if (w->progress) w->progress(w->ctx, end, total);
        if (w->stride && end == total) break;
    }
    mem_free(copy);
    return rc;
}
