/* slots.c - how far each query is, for whoever watches: the engine thread notes it after each step, so that nobody else
 * reads a session. */
#include "base/clock.h"
#include "engine/engine_state.h"

void slots_note(engine *g)
{
    g->noted++;
    for (session *s = g->running; s; s = s->next) {
        s->seen_at = g->noted;
        s->seen.cached_tokens = s->cached;
        s->seen.past = s->text.n_past;
        s->seen.generated = s->n_ids - s->n_prompt;
    }
}

int engine_slots(engine *g, engine_slot *out, int most)
{
    const double now = clock_now();
    int n = 0;
    pthread_mutex_lock(&g->lock);
    for (const session *s = g->all; s && n < most; s = s->all_next, n++) {
        out[n] = s->seen;
        out[n].seconds = now - s->added;
        out[n].state = s->paused                              ? ENGINE_SLOT_PAUSED
                       : s->seen_at && s->seen_at == g->noted ? ENGINE_SLOT_RUNNING
                                                              : ENGINE_SLOT_WAITING;
    }
    pthread_mutex_unlock(&g->lock);
    return n;
}
