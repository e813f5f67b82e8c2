/* warp.c - 32 lanes with a place each in the code: the group that is deepest in calls and lowest in the code goes on,
 * so lanes that a branch has parted meet where their ways join. Lanes that wait for each other in a loop get their turn
 * after some branches backwards. */
#include "tests/gpu/machine.h"
#include "tests/gpu/warp.h"

#include <limits.h>
#include <string.h>

enum { SPINS = 4000 };

group *warp_take(warp *w, uint32_t mask)
{
    group *g = &w->g[w->at];
    if (g->mask != mask) {
        group *rest = &w->g[w->n_group++];
        *rest = *g;
        rest->mask = g->mask & ~mask;
        rest->pc++;
        g->mask = mask;
    }
    return g;
}

static void drop(warp *w, int i)
{
    w->g[i] = w->g[--w->n_group];
    if (w->at == w->n_group) w->at = i;
}

void warp_sleep(warp *w)
{
    w->sleeps = true;
    if (w->n_group > 1) w->spins = SPINS + 1; /* the others' turn */
}

void warp_end(warp *w, uint32_t mask)
{
    warp_take(w, mask);
    drop(w, w->at);
    w->live &= ~mask;
    w->block->live -= __builtin_popcount(mask);
    for (int i = 0; i < w->n_group; i++)
        if (w->g[i].state == GROUP_AT_WARP) w->g[i].state = GROUP_RUNS; /* it may be complete now */
    if (w->block->live) block_barrier(w, 0, -1, 0, false);
}

bool warp_together(warp *w, uint32_t mask, uint32_t members)
{
    if (mask & ~members) {
        machine_fault(w, __builtin_ctz(mask & ~members), FAULT_LAUNCH, "a lane that its own mask %#x does not name",
                      members);
        return false;
    }
    const uint32_t missing = members & w->live & ~mask;
    group *g = warp_take(w, mask);
    if (!missing) return true;
    g->state = GROUP_AT_WARP;
    return false;
}

static bool runs_before(const group *a, const group *b)
{
    return a->depth > b->depth || (a->depth == b->depth && a->pc < b->pc);
}

/* Which group goes on; groups at its place join it. stop: where it will meet another. */
static bool pick(warp *w, int32_t *stop)
{
    int best = -1;
    const bool turn = w->spins > SPINS;
    for (int i = 0; i < w->n_group; i++) {
        if (w->g[i].state != GROUP_RUNS || (turn && i == w->at)) continue;
        if (best < 0 || runs_before(&w->g[i], &w->g[best])) best = i;
    }
    if (best < 0 && turn && w->at < w->n_group && w->g[w->at].state == GROUP_RUNS) best = w->at;
    if (turn) w->spins = 0;
    if (best < 0) return false;
    w->at = best;
    *stop = INT32_MAX;
    for (int i = 0; i < w->n_group; i++) {
        const group *o = &w->g[i], *g = &w->g[w->at];
        if (i == w->at || o->depth != g->depth) continue;
        if (o->pc == g->pc && o->state != GROUP_AT_BARRIER) {
            w->g[w->at].mask |= o->mask;
            drop(w, i--);
        } else if (o->pc > g->pc && o->pc < *stop) {
            *stop = o->pc;
        }
    }
    return true;
}

/* Runs the group up to stop or to an instruction that moves it. */
static int64_t straight(warp *w, int32_t stop, int64_t budget)
{
    const inst *code = w->block->of->p->code;
    group *g = &w->g[w->at];
    const uint32_t all = g->mask;
    uint8_t *ran = w->block->of->p->ran;
    int64_t n = 0;
    for (int32_t pc = g->pc; n < budget; n++) {
        const inst *in = &code[pc];
        uint32_t mask = all;
        if (in->guard != NO_ROW) mask &= in->guard_not ? ~*row(w, in->guard) : *row(w, in->guard);
        w->now = in;
        if (ran && mask) ran[pc] = 1;
        if (in->flow == FLOW_SETS && mask) {
            g->pc = pc;
            in->run(w, in, mask);
            return n + 1;
        }
        if (mask) in->run(w, in, mask);
        g->pc = ++pc;
        if (pc >= stop || w->block->of->fault) return n + 1;
    }
    return n;
}

int64_t warp_run(warp *w, int64_t budget)
{
    int64_t n = 0;
    int32_t stop;
    w->sleeps = false;
    while (n < budget && !w->sleeps && !w->block->of->fault && pick(w, &stop)) n += straight(w, stop, budget - n);
    return n;
}
