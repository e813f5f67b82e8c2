/* answer_loop.c - see answer_loop.h. */
#include "app/answer_loop.h"

#include "app/interrupt.h"
#include "app/prompt_bar.h"
#include "base/clock.h"
#include "base/log.h"

int answer_loop(engine *eng, const answer *a, uint64_t id, bool bar, int64_t *unread, err *e)
{
    const double began = clock_now();
    bool more = true, told = false;
    while (!a->finish) {
        engine_slot slot;
        int rc = engine_infer(eng, &more, e);
        if (rc) return rc;
        if (!more && !a->finish) return err_set(e, ERR_IO, "the engine ended without a word");
        if (interrupted && !told) {
            if (unread && !a->n_tokens && engine_slots(eng, &slot, 1) == 1) *unread = slot.prompt_tokens - slot.past;
            engine_cancel(eng, id);
        }
        told = interrupted;
        if (bar && !a->n_tokens && !a->finish) prompt_bar_show(eng, began);
    }
    log_progress_end();
    return OK;
}
