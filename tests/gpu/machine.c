/* machine.c - blocks of a launch and their turns. */
#include "tests/gpu/machine.h"
#include "tests/gpu/bulk.h"
#include "tests/gpu/copies.h"
#include "tests/gpu/products.h"
#include "tests/gpu/proxy.h"
#include "tests/gpu/race.h"
#include "tests/gpu/warp.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RESIDENT = 64, PATIENCE = 1 << 20, SPARES = 4 };

uint64_t machine_warp_instructions, machine_idle;

uint64_t machine_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

void machine_fault(warp *w, int lane, int code, const char *format, ...)
{
    launch *l = w->block->of;
    if (l->fault) return;
    l->fault = code;
    const uint32_t t = (uint32_t)(w->index * LANES + lane), *dim = l->dim, *id = w->block->id;
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fflush(stdout);
    fprintf(stderr, "soft gpu: error %d in %s, block (%u,%u,%u), thread (%u,%u,%u), PTX line %d, %s: %s\n", code,
            l->p->m->function[l->function].name, id[0], id[1], id[2], t % dim[0], t / dim[0] % dim[1],
            t / dim[0] / dim[1], w->now ? w->now->line : 0, w->now ? w->now->text : "start", text);
}

/* ---- barriers ---- */

static void release(block *b, int id)
{
    barrier *bar = &b->bar[id];
    for (int i = 0; i < b->n_warp; i++) {
        warp *w = &b->warps[i];
        for (int k = 0; k < w->n_group; k++) {
            group *g = &w->g[k];
            if (g->state != GROUP_AT_BARRIER || g->barrier != id) continue;
            const inst *in = &b->of->p->code[g->pc];
            if (in->o[0] != NO_ROW) { /* bar.red */
                uint32_t *d = row_set(w, in->o[0]);
                if (in->mode == BARRIER_POPC) {
                    for (int l = 0; l < LANES; l++)
                        if (g->mask >> l & 1) d[l] = bar->sum;
                } else {
                    const bool yes = in->mode == BARRIER_AND ? bar->all : bar->any;
                    *d = yes ? *d | g->mask : *d & ~g->mask;
                }
            }
            race_go_on(w, g->mask, id);
            g->state = GROUP_RUNS;
            g->pc++;
        }
    }
    race_barrier_done(b, id);
    *bar = (barrier){.all = 1};
}

/* id -1: threads have ended, so a barrier of all may be complete. */
void block_barrier(warp *w, uint32_t mask, int id, int count, bool arrive_only)
{
    block *b = w->block;
    if (id >= 0) {
        barrier *bar = &b->bar[id];
        if (bar->arrived && bar->expected != count) machine_fault(w, 0, FAULT_LAUNCH, "barrier %d with two counts", id);
        bar->expected = count;
        bar->arrived += __builtin_popcount(mask);
        race_arrive(w, mask, id);
        if (!arrive_only) {
            group *g = warp_take(w, mask);
            g->state = GROUP_AT_BARRIER;
            g->barrier = (uint8_t)id;
        }
    }
    for (int i = 0; i < BARRIERS; i++) {
        const barrier *bar = &b->bar[i];
        const int want = bar->expected ? bar->expected : b->live;
        if (bar->arrived > want) machine_fault(w, 0, FAULT_LAUNCH, "%d threads at a barrier of %d", bar->arrived, want);
        if (bar->arrived && bar->arrived == want) release(b, i);
    }
}

/* ---- blocks ---- */

static void fill(warp *w, int special, uint32_t value)
{
    uint32_t *r = row_set(w, special);
    for (int l = 0; l < LANES; l++) r[l] = value;
}

static void fill_specials(warp *w, const block *b)
{
    const launch *l = b->of;
    const uint32_t start = SHARED_START + (uint32_t)ptx_program_shared(l->p, l->function);
    for (int i = 0; i < 3; i++) {
        fill(w, SPECIAL_NTID_X + i, l->dim[i]);
        fill(w, SPECIAL_CTAID_X + i, b->id[i]);
        fill(w, SPECIAL_NCTAID_X + i, l->grid[i]);
    }
    for (uint32_t i = 0; i < LANES; i++) {
        const uint32_t t = (uint32_t)w->index * LANES + i;
        row_set(w, SPECIAL_TID_X)[i] = t % l->dim[0];
        row_set(w, SPECIAL_TID_Y)[i] = t / l->dim[0] % l->dim[1];
        row_set(w, SPECIAL_TID_Z)[i] = t / l->dim[0] / l->dim[1];
        row_set(w, SPECIAL_LANEID)[i] = i;
        row_set(w, SPECIAL_LANEMASK_EQ)[i] = 1u << i;
        row_set(w, SPECIAL_LANEMASK_LT)[i] = (1u << i) - 1;
        row_set(w, SPECIAL_LANEMASK_LE)[i] = (1u << i) | ((1u << i) - 1);
        row_set(w, SPECIAL_LANEMASK_GT)[i] = ~((1u << i) | ((1u << i) - 1));
        row_set(w, SPECIAL_LANEMASK_GE)[i] = ~((1u << i) - 1);
    }
    fill(w, SPECIAL_WARPID, (uint32_t)w->index);
    fill(w, SPECIAL_NWARPID, (uint32_t)b->n_warp);
    fill(w, SPECIAL_SMID, (uint32_t)(b->number % 4));
    fill(w, SPECIAL_NSMID, 4);
    fill(w, SPECIAL_DYNAMIC_BYTES, l->dynamic);
    fill(w, SPECIAL_SHARED_BYTES, b->shared_bytes);
    fill(w, SPECIAL_CLUSTER_RANK, 0);
    fill(w, SPECIAL_CLUSTER_SIZE, 1);
    fill(w, SPECIAL_DYNAMIC_START, start);
}

static block *block_new(const launch *l)
{
    const program *p = l->p;
    const int n_warp = (int)((l->dim[0] * l->dim[1] * l->dim[2] + LANES - 1) / LANES);
    const uint32_t shared_bytes = (uint32_t)ptx_program_shared(p, l->function) + l->dynamic;
    for (block **at = &l->p->spare; *at; at = &(*at)->next) {
        block *old = *at;
        if (old->function != l->function || old->n_warp != n_warp || old->shared_bytes != shared_bytes) continue;
        *at = old->next;
        return old;
    }
    block *b = calloc(1, sizeof *b);
    if (!b) abort();
    b->function = l->function;
    b->n_warp = n_warp;
    b->shared_bytes = shared_bytes;
    b->shared = malloc(b->shared_bytes + 1);
    b->warps = calloc((size_t)b->n_warp, sizeof *b->warps);
    if (!b->shared || !b->warps) abort();
    for (int i = 0; i < b->n_warp; i++) {
        warp *w = &b->warps[i];
        const size_t file = sizeof(uint32_t) * LANES * (size_t)p->rows[l->function],
                     local = LANES * (size_t)p->local_bytes[l->function];
        if (posix_memalign((void **)&w->file, 128, file) || !(w->local = malloc(local + 1))) abort();
        memset(w->file, GPU_POISON, file);
        memset(w->local, GPU_POISON, local);
        w->constants = p->constants;
        w->local_bytes = p->local_bytes[l->function];
        w->index = i;
    }
    return b;
}

static void block_free(block *b)
{
    for (int i = 0; i < b->n_warp; i++) {
        free(b->warps[i].file);
        free(b->warps[i].local);
        copies_forget(&b->warps[i]);
        products_forget(&b->warps[i]);
    }
    free(b->warps);
    free(b->shared);
    race_shadow_free(b->shadow);
    proxy_free(b->proxy);
    free(b->race);
    free(b);
}

/* Its memory is for the next block of the kernel; of any kernel some are kept. */
static void block_keep(program *p, block *b)
{
    int n = 0;
    for (const block *at = p->spare; at; at = at->next) n += at->function == b->function;
    if (n >= SPARES) {
        block_free(b);
        return;
    }
    b->next = p->spare;
    p->spare = b;
}

void machine_forget(program *p)
{
    while (p->spare) {
        block *b = p->spare;
        p->spare = b->next;
        block_free(b);
    }
}

static void begin_block(launch *l)
{
    block *b = block_new(l);
    const uint32_t threads = l->dim[0] * l->dim[1] * l->dim[2];
    b->of = l;
    b->number = l->next++;
    b->id[0] = (uint32_t)(b->number % l->grid[0]);
    b->id[1] = (uint32_t)(b->number / l->grid[0] % l->grid[1]);
    b->id[2] = (uint32_t)(b->number / l->grid[0] / l->grid[1]);
    b->live = (int)threads;
    b->ran = 0;
    b->lets_begin = b->waited = false;
    memset(b->shared, GPU_POISON, b->shared_bytes);
    proxy_free(b->proxy);
    b->proxy = NULL;
    for (int i = 0; i < BARRIERS; i++) b->bar[i] = (barrier){.all = 1};
    for (int i = 0; i < b->n_warp; i++) {
        warp *w = &b->warps[i];
        const uint32_t left = threads - (uint32_t)i * LANES;
        w->block = b;
        w->live = left >= LANES ? ALL_LANES : (1u << left) - 1;
        w->n_group = 1;
        w->at = 0;
        w->spins = 0;
        w->now = NULL;
        copies_forget(w);
        products_forget(w);
        w->g[0] = (group){.mask = w->live, .pc = l->p->entry[l->function]};
        fill_specials(w, b);
    }
    race_begin_block(b);
    l->resident[l->n_resident++] = b;
}

/* One turn of each warp, from a random one on. A warp runs until it waits, or for a random time. */
static int64_t block_run(block *b, int64_t budget)
{
    int64_t n = 0;
    while (b->live && n < budget && !b->of->waits && !b->of->gives_way && !b->of->fault) {
        int64_t turn = 0;
        const int first = (int)(machine_random(&b->of->random) % (uint64_t)b->n_warp);
        for (int i = 0; i < b->n_warp && !b->of->fault; i++) { /* all warps: one may be what another sleeps for */
            warp *w = &b->warps[(first + i) % b->n_warp];
            if (!w->live) continue;
            turn += warp_run(w, 16 + (int64_t)(machine_random(&b->of->random) % 2048));
            b->of->waits |= w->sleeps && !b->of->gives_way;
        }
        n += turn;
        if (!turn && b->live && !b->of->fault && !b->of->gives_way)
            for (int i = 0; i < b->n_warp; i++)
                if (b->warps[i].live) {
                    warp *w = &b->warps[i];
                    w->now = &b->of->p->code[w->g[0].pc];
                    machine_fault(w, __builtin_ctz(w->g[0].mask), FAULT_LAUNCH, "threads wait for each other for ever");
                }
    }
    b->ran += (uint64_t)n;
    return n;
}

/* ---- launches ---- */

launch *launch_new(program *p, int function, const uint32_t grid[3], const uint32_t dim[3], uint32_t dynamic)
{
    launch *l = calloc(1, sizeof *l);
    if (!l) abort();
    l->p = p;
    l->function = function;
    memcpy(l->grid, grid, sizeof l->grid);
    memcpy(l->dim, dim, sizeof l->dim);
    l->dynamic = dynamic;
    l->count = (uint64_t)grid[0] * grid[1] * grid[2];
    l->window = 2;
    l->resident = calloc(RESIDENT, sizeof *l->resident);
    if (!l->resident) abort();
    race_begin_launch(l);
    return l;
}

bool launch_lets_begin(const launch *l) { return l->let_begin == l->count; }

bool block_let_begin(block *b)
{
    const bool now = !b->lets_begin && ++b->of->let_begin == b->of->count;
    b->lets_begin = true;
    b->of->gives_way |= now;
    return now;
}

bool block_wait_before(block *b)
{
    b->waited = true;
    b->of->gives_way |= b->of->held;
    return !b->of->held;
}

/* Its block has ended. Had it not waited, launches behind it would take all before it for ended. */
static void end_block(block *b)
{
    block_let_begin(b);
    if (b->of->depends && !b->waited && !b->of->fault)
        machine_fault(&b->warps[0], 0, FAULT_LAUNCH, "a block of a dependent launch ends and has not waited");
    bulk_end(b);
    race_end_block(b);
}

bool launch_run(launch *l, int64_t budget)
{
    l->waits = l->gives_way = false;
    while (budget > 0 && !l->waits && !l->gives_way && !l->fault) {
        while (l->n_resident < l->window && l->next < l->count) begin_block(l);
        if (!l->n_resident) return true;
        const int i = (int)(machine_random(&l->random) % (uint64_t)l->n_resident);
        block *b = l->resident[i];
        const int64_t n = block_run(b, 256 + (int64_t)(machine_random(&l->random) % 16384));
        budget -= n + 1;
        machine_warp_instructions += (uint64_t)n;
        l->idle += (uint64_t)n;
        if (!b->live) {
            end_block(b);
            l->resident[i] = l->resident[--l->n_resident];
            block_keep(l->p, b);
            l->idle = 0;
        } else if ((l->idle > PATIENCE || l->waits) && l->next < l->count && l->window < RESIDENT) {
            /* They may wait for one that has not begun. */
            l->window++;
            l->idle = 0;
        } else if (l->idle > l->patience) {
            machine_fault(&b->warps[0], 0, FAULT_LAUNCH, "no block has ended for %llu instructions",
                          (unsigned long long)l->patience);
        }
    }
    return l->fault || (!l->n_resident && l->next == l->count);
}

void launch_free(launch *l)
{
    for (int i = 0; i < l->n_resident; i++) {
        bulk_end(l->resident[i]);
        race_end_block(l->resident[i]);
        block_keep(l->p, l->resident[i]);
    }
    race_end_launch(l);
    free(l->resident);
    free(l);
}
