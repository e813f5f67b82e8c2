/* turns.c - see turns.h. */
#include "plan/turns.h"

#include "base/mem.h"

/* after[i]: stretches of the step before that must be over when stretch i begins. */
static void find_after(const segment *s, uint32_t *last, uint32_t *after)
{
    for (uint32_t i = 0; i < s->n_stretch; i++)
        for (uint32_t k = stretch_begin(s, i); k < s->ends[i]; k++)
            if (s->p->ops[k].state >= 0) last[s->p->ops[k].state] = i;
    for (uint32_t i = 0; i < s->n_stretch; i++) {
        after[i] = i + 1;
        for (uint32_t k = stretch_begin(s, i); k < s->ends[i]; k++) {
            const int of = s->p->ops[k].state;
            if (of >= 0 && last[of] + 1 > after[i]) after[i] = last[of] + 1;
        }
    }
}

int turns_open(plan_rank *r, err *e)
{
    if (r->n_lane == 1) return OK;
    uint32_t *last = mem_zero(r->seg.p->n_state + 1, sizeof *last);
    r->after = mem_zero(r->seg.n_stretch, sizeof *r->after);
    const bool ok = last && r->after;
    if (ok) find_after(&r->seg, last, r->after);
    mem_free(last);
    return ok ? OK : err_memory(e, "steps under way");
}

void turns_close(plan_rank *r)
{
    mem_free(r->after);
    r->after = NULL;
}

/* Whether so many stretches of the step before that of the lane are over; under the lock. */
static bool is_after(const rank_lane *a, uint32_t stretches)
{
    if (!a->next || !stretches) return true;
    const rank_lane *before = lane_of(a->of, a->next - 1);
    return before->next >= a->next || (before->next == a->next - 1 && before->reached >= stretches);
}

static void take_turn(rank_lane *a, uint32_t stretches)
{
    plan_rank *r = a->of;
    pthread_mutex_t *lock = &r->of->lock;
    if (r->n_lane == 1) return;
    pthread_mutex_lock(lock);
    while (r->taken || !is_after(a, stretches)) pthread_cond_wait(&r->turn, lock);
    r->taken = true;
    pthread_mutex_unlock(lock);
}

void turn_take(rank_lane *a, uint32_t stretch, const step *st)
{
    const plan_rank *r = a->of;
    const bool copies = !stretch && st->n_copy;
    take_turn(a, r->n_lane == 1 ? 0 : copies ? r->seg.n_stretch : r->after[stretch]);
}

void turn_take_for_rows(rank_lane *a) { take_turn(a, 0); }

void turn_give(rank_lane *a, uint32_t reached)
{
    plan_rank *r = a->of;
    if (r->n_lane == 1) return;
    pthread_mutex_lock(&r->of->lock);
    r->taken = false;
    a->reached = reached;
    pthread_cond_broadcast(&r->turn);
    pthread_mutex_unlock(&r->of->lock);
}
