/* race.c - happens-before for lanes.
 *
 * Each warp has a time that goes on when one of its lanes gives away what it knows. A touch of memory is remembered
 * with its thread and time. A clock tells up to which time its holder knows of others: of whole warps of its own block
 * by an array, of single threads and of other blocks by a list. What all lanes of a warp know is one clock, what a lane
 * knows besides another. Times never repeat, so what earlier launches and blocks left in a shadow is old by itself.
 * Source of the idea: FastTrack (Flanagan, Freund 2009). */
#define _GNU_SOURCE
#include "tests/gpu/race.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/gpu/ptx_lex.h"

typedef union record {
    struct {
        uint32_t time, block; /* block: a number that no other block of the process has */
        uint32_t line;
        uint16_t thread : 10, strong : 1, split : 1;
        uint16_t launch;
    };
    uint64_t half[2];
} record;

/* The last write; the last reader, the last one of another lane of its warp, and the last one of another warp. */
typedef struct cell {
    record write, reader[3];
} cell;

struct gpu_shadow {
    size_t bytes;
    bool of_block;
    cell *word, *byte;
};

typedef struct known {
    uint32_t block, who; /* a thread, or KNOWN_WARP + a warp */
    uint32_t time;
} known;
enum { KNOWN_WARP = 1024 };

typedef struct vector_clock {
    uint32_t warp[WARPS];
    uint32_t past; /* it knows of all launches that ended before */
    int n;
    known *list;
} vector_clock;

typedef struct race_warp {
    bool apart; /* one of its lanes knows more than the others */
    uint32_t time;
    vector_clock all;           /* what every lane knows */
    vector_clock *own[LANES];   /* what a lane knows besides */
    vector_clock *given[LANES]; /* what it knew at its last fence: the next strong write gives it away */
    vector_clock *taken[LANES]; /* what it has read and a fence will make known */
} race_warp;

/* What was given away at an address. */
typedef struct variable {
    uint64_t address;
    uint32_t block;
    vector_clock clock;
} variable;

typedef struct race_block {
    uint32_t number;
    vector_clock at[BARRIERS]; /* what those know that have come */
    race_warp warps[WARPS];
} race_block;

typedef struct variables {
    int n;
    variable *list;
} variables;

typedef struct race_launch {
    uint32_t began;
    uint16_t number;
    bool beside;        /* another one ran at the same time */
    variables of_block; /* in shared memory */
    struct race_launch *next;
} race_launch;

static uint32_t time_now = 1, block_number;
static uint16_t launch_number;
static race_launch *running;
static variables of_all; /* in memory that all launches see */
static struct {
    uint32_t began, ended;
} lives[1 << 16]; /* of launches by number; ended 0: it runs */

bool race_on(void)
{
    static int on = -1;
    if (on < 0) {
        const char *v = getenv("SOFT_GPU_RACES");
        on = !v || strcmp(v, "0");
    }
    return on;
}

/* ---- shadows ---- */

static cell *cells(size_t n)
{
    void *p = mmap(NULL, n * sizeof(cell), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) abort();
    madvise(p, n * sizeof(cell), MADV_HUGEPAGE); /* a page of 4 KiB holds the cells of 256 bytes */
    return p;
}

gpu_shadow *race_shadow_new(size_t bytes, bool of_block)
{
    gpu_shadow *s = calloc(1, sizeof *s);
    if (!s) abort();
    s->bytes = bytes;
    s->of_block = of_block;
    s->word = cells(bytes / 4 + 2);
    return s;
}

void race_shadow_free(gpu_shadow *s)
{
    if (!s) return;
    munmap(s->word, (s->bytes / 4 + 2) * sizeof(cell));
    if (s->byte) munmap(s->byte, (s->bytes + 8) * sizeof(cell));
    free(s);
}

/* ---- clocks ---- */

static void learn(vector_clock *c, uint32_t of, uint32_t who, uint32_t time)
{
    for (int i = 0; i < c->n; i++)
        if (c->list[i].block == of && c->list[i].who == who) {
            if (c->list[i].time < time) c->list[i].time = time;
            return;
        }
    *GROW(c->list, c->n) = (known){of, who, time};
}

/* c learns what from, of a lane of block of, knows; c belongs to block mine. */
static void join(vector_clock *c, uint32_t mine, const vector_clock *from, uint32_t of)
{
    if (c->past < from->past) c->past = from->past;
    for (uint32_t i = 0; i < WARPS; i++) {
        if (mine != of && from->warp[i]) learn(c, of, KNOWN_WARP + i, from->warp[i]);
        else if (mine == of && c->warp[i] < from->warp[i]) c->warp[i] = from->warp[i];
    }
    for (int i = 0; i < from->n; i++) {
        const known *k = &from->list[i];
        if (k->block != mine) learn(c, k->block, k->who, k->time);
        else if (k->who >= KNOWN_WARP)
            c->warp[k->who - KNOWN_WARP] = k->time > c->warp[k->who - KNOWN_WARP] ? k->time
                                                                                  : c->warp[k->who - KNOWN_WARP];
        else if (c->warp[k->who / LANES] < k->time) learn(c, mine, k->who, k->time);
    }
}

static void clear(vector_clock *c)
{
    free(c->list);
    memset(c, 0, sizeof *c);
}

static void drop(vector_clock **c)
{
    if (*c) clear(*c);
    free(*c);
    *c = NULL;
}

static vector_clock *make(race_warp *rw, vector_clock **c)
{
    rw->apart = true;
    if (!*c) *c = calloc(1, sizeof **c);
    if (!*c) abort();
    return *c;
}

static bool knows(const vector_clock *c, uint32_t mine, const record *r)
{
    const uint32_t at = r->thread / LANES;
    if (r->block == mine && r->time <= c->warp[at]) return true;
    for (int i = 0; i < c->n; i++) {
        const known *k = &c->list[i];
        if (k->block == r->block && (k->who == r->thread || k->who == KNOWN_WARP + at) && r->time <= k->time)
            return true;
    }
    return false;
}

static race_block *of_block(const block *b) { return b->race; }
static race_warp *of_warp(const warp *w) { return &of_block(w->block)->warps[w->index]; }

/* Adds all that lanes of a warp know, their own touches included. */
static void tell(vector_clock *c, uint32_t mine, const warp *w, uint32_t mask)
{
    race_warp *rw = of_warp(w);
    const uint32_t of = of_block(w->block)->number;
    join(c, mine, &rw->all, of);
    if (c->past < w->block->of->race->began) c->past = w->block->of->race->began;
    for (uint32_t m = mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        if (rw->own[l]) join(c, mine, rw->own[l], of);
        if (mask != w->live) learn(c, of, (uint32_t)(w->index * LANES + l), rw->time);
    }
    if (mask != w->live) return;
    if (of == mine) c->warp[w->index] = rw->time;
    else learn(c, of, KNOWN_WARP + (uint32_t)w->index, rw->time);
}

static void hear(warp *w, uint32_t mask, const vector_clock *c, uint32_t of)
{
    race_warp *rw = of_warp(w);
    const uint32_t mine = of_block(w->block)->number;
    if (mask == w->live) {
        join(&rw->all, mine, c, of);
        for (int l = 0; l < LANES && rw->apart; l++) drop(&rw->own[l]);
        return;
    }
    for (uint32_t m = mask; m; m &= m - 1) join(make(rw, &rw->own[__builtin_ctz(m)]), mine, c, of);
}

/* ---- blocks and barriers ---- */

void race_begin_launch(launch *l)
{
    if (!race_on()) return;
    l->race = calloc(1, sizeof *l->race);
    if (!l->race) abort();
    l->race->began = ++time_now;
    l->race->number = ++launch_number;
    lives[launch_number].began = time_now;
    lives[launch_number].ended = 0;
    l->race->next = running;
    running = l->race;
    for (race_launch *at = running; at && running->next; at = at->next) at->beside = true;
}

static void forget_variables(variables *v)
{
    for (int i = 0; i < v->n; i++) clear(&v->list[i].clock);
    free(v->list);
    *v = (variables){0};
}

void race_end_launch(launch *l)
{
    if (!l->race) return;
    race_launch **at = &running;
    while (*at != l->race) at = &(*at)->next;
    *at = l->race->next;
    lives[l->race->number].ended = ++time_now;
    if (!running) forget_variables(&of_all);
    forget_variables(&l->race->of_block);
    free(l->race);
}

void race_begin_block(block *b)
{
    if (!race_on()) return;
    if (!b->race) b->race = calloc(1, sizeof(race_block));
    if (!b->race) abort();
    if (!b->shadow) b->shadow = race_shadow_new(b->shared_bytes, true);
    race_block *rb = b->race;
    rb->number = ++block_number;
    time_now++;
    for (int i = 0; i < b->n_warp; i++) rb->warps[i].time = time_now;
}

void race_end_block(block *b)
{
    race_block *rb = b->race;
    if (!rb) return;
    for (int i = 0; i < BARRIERS; i++) clear(&rb->at[i]);
    for (int i = 0; i < b->n_warp; i++) {
        clear(&rb->warps[i].all);
        if (!rb->warps[i].apart) continue;
        rb->warps[i].apart = false;
        for (int l = 0; l < LANES; l++) {
            drop(&rb->warps[i].own[l]);
            drop(&rb->warps[i].given[l]);
            drop(&rb->warps[i].taken[l]);
        }
    }
    variables *v = &b->of->race->of_block;
    int kept = 0;
    for (int i = 0; i < v->n; i++) {
        if (v->list[i].block == rb->number) clear(&v->list[i].clock);
        else v->list[kept++] = v->list[i];
    }
    v->n = kept;
    if (!kept) forget_variables(v);
}

static void step(warp *w)
{
    race_warp *rw = of_warp(w);
    rw->time++;
    if (time_now < rw->time) time_now = rw->time;
}

void race_warp_barrier(warp *w, uint32_t mask)
{
    if (!race_on()) return;
    vector_clock c = {0};
    const uint32_t mine = of_block(w->block)->number;
    tell(&c, mine, w, mask);
    hear(w, mask, &c, mine);
    clear(&c);
    step(w);
}

void race_arrive(warp *w, uint32_t mask, int id)
{
    if (!race_on() || !mask) return;
    tell(&of_block(w->block)->at[id], of_block(w->block)->number, w, mask);
    step(w);
}

void race_go_on(warp *w, uint32_t mask, int id)
{
    if (race_on()) hear(w, mask, &of_block(w->block)->at[id], of_block(w->block)->number);
}

void race_barrier_done(block *b, int id)
{
    if (race_on()) clear(&of_block(b)->at[id]);
}

void race_wait_before(warp *w, uint32_t mask)
{
    if (!race_on()) return;
    race_warp *rw = of_warp(w);
    time_now++;
    if (mask == w->live) rw->all.past = time_now;
    for (uint32_t m = mask; mask != w->live && m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        make(rw, &rw->own[l])->past = time_now;
    }
}

/* ---- fences and strong accesses ---- */

static variable *find_variable(const warp *w, uint64_t address, bool add)
{
    /* A block's own address of shared memory is not another block's. */
    const uint32_t of = (address & ~WINDOW_OFFSET) == WINDOW_SHARED ? of_block(w->block)->number : 0;
    variables *in = of ? &w->block->of->race->of_block : &of_all;
    for (int i = 0; i < in->n; i++)
        if (in->list[i].address == address && in->list[i].block == of) return &in->list[i];
    if (!add) return NULL;
    variable *v = GROW(in->list, in->n);
    v->address = address;
    v->block = of;
    return v;
}

void race_fence(warp *w, uint32_t mask)
{
    if (!race_on()) return;
    race_warp *rw = of_warp(w);
    const uint32_t mine = of_block(w->block)->number;
    for (uint32_t m = mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        if (rw->taken[l]) join(make(rw, &rw->own[l]), mine, rw->taken[l], mine);
        drop(&rw->taken[l]);
        drop(&rw->given[l]);
        tell(make(rw, &rw->given[l]), mine, w, 1u << l);
    }
    step(w);
}

/* What is kept at a variable is as a lane of no block would know it. */
void race_strong(warp *w, int l, uint64_t address, int touch, int order)
{
    if (!race_on()) return;
    race_warp *rw = of_warp(w);
    const uint32_t mine = of_block(w->block)->number;
    const bool acquires = order == ORDER_ACQUIRE || order == ORDER_BOTH,
               releases = order == ORDER_RELEASE || order == ORDER_BOTH;
    const variable *v = find_variable(w, address, false);
    if (v && touch & TOUCH_READ) join(make(rw, acquires ? &rw->own[l] : &rw->taken[l]), mine, &v->clock, 0);
    if (!(touch & TOUCH_WRITE)) return;
    const bool gives = releases || rw->given[l];
    variable *to = gives ? find_variable(w, address, true) : find_variable(w, address, false);
    if (to && touch & TOUCH_OVER) clear(&to->clock);
    if (!gives) return;
    if (releases) tell(&to->clock, 0, w, 1u << l);
    else join(&to->clock, 0, rw->given[l], mine);
    step(w);
}

/* ---- touches ---- */

static void report(warp *w, int l, const record *r, bool wrote, int touch)
{
    const uint32_t t = r->thread, *dim = w->block->of->dim;
    machine_fault(w, l, FAULT_LAUNCH,
                  "a race: it %s what thread (%u,%u,%u)%s %s at line %u, and nothing orders the two",
                  touch & TOUCH_WRITE ? "writes" : "reads", t % dim[0], t / dim[0] % dim[1], t / dim[0] / dim[1],
                  r->launch != w->block->of->race->number  ? " of another launch"
                  : r->block == of_block(w->block)->number ? " of its block"
                                                           : " of another block",
                  wrote ? "wrote" : "read", r->line);
}

/* Whether the other launch of a record had ended at time `past`, or was an earlier launch of the same number. */
static inline bool ended_before(const race_launch *rl, const record *r, uint32_t past)
{
    if (!rl->beside || !r->block || r->time < lives[r->launch].began) return true;
    return lives[r->launch].ended && lives[r->launch].ended < past;
}

/* Whether the other launch had ended before this launch began, or before the lane last learned of launches that had
 * ended. */
static bool was_before(const warp *w, int l, const record *r)
{
    const race_launch *rl = w->block->of->race;
    const race_warp *rw = of_warp(w);
    uint32_t past = rl->began;
    if (past < rw->all.past) past = rw->all.past;
    if (rw->own[l] && past < rw->own[l]->past) past = rw->own[l]->past;
    return ended_before(rl, r, past);
}

static inline bool ordered(const warp *w, int l, const gpu_shadow *s, const record *r, record me)
{
    const race_warp *rw = of_warp(w);
    if (r->launch == me.launch ? r->time < w->block->of->race->began : was_before(w, l, r)) return true;
    if (s->of_block && r->block != me.block) return true;
    if (r->block == me.block && r->thread == me.thread) return true;
    if (r->strong && me.strong) return true;
    return knows(&rw->all, me.block, r) || (rw->own[l] && knows(rw->own[l], me.block, r));
}

static inline bool same_warp(const record *a, record b)
{
    return a->block == b.block && a->thread / LANES == b.thread / LANES;
}

static inline void note_reader(cell *c, record me)
{
    record *r = c->reader;
    if (r[0].block != me.block || r[0].thread != me.thread) r[same_warp(&r[0], me) ? 1 : 2] = r[0];
    r[0] = me;
}

static bool write_cell(warp *w, int l, const gpu_shadow *s, cell *c, record me, int touch)
{
    for (int i = 0; i < 3; i++)
        if (!ordered(w, l, s, &c->reader[i], me)) return report(w, l, &c->reader[i], false, touch), false;
    const uint16_t in_parts = c->write.split;
    c->write = me;
    c->write.split = in_parts & 1;
    return true;
}

/* Whether what was written last is as old as the launch. */
static bool is_constant(const warp *w, const record *r)
{
    const race_launch *rl = w->block->of->race;
    if (r->launch == rl->number) return r->time < rl->began;
    return ended_before(rl, r, rl->began);
}

/* False after a fault. */
static inline bool touch_cell(warp *w, int l, const gpu_shadow *s, cell *c, record me, int touch)
{
    if (touch & TOUCH_CONSTANT && !is_constant(w, &c->write)) return report(w, l, &c->write, true, touch), false;
    if ((c->write.launch == me.launch || w->block->of->race->beside) && !ordered(w, l, s, &c->write, me))
        return report(w, l, &c->write, true, touch), false;
    if (touch & TOUCH_WRITE) return write_cell(w, l, s, c, me, touch);
    note_reader(c, me);
    return true;
}

static void split(gpu_shadow *s, uint64_t word)
{
    if (!s->byte) s->byte = cells(s->bytes + 8);
    s->word[word].write.split = 1;
    for (int i = 0; i < 4; i++) s->byte[word * 4 + (uint64_t)i] = s->word[word];
}

static record me_of(const warp *w, int l, int touch)
{
    return (record){.time = of_warp(w)->time,
                    .block = of_block(w->block)->number,
                    .line = (uint32_t)w->now->line,
                    .thread = (uint16_t)(w->index * LANES + l),
                    .strong = (touch & TOUCH_STRONG) != 0,
                    .launch = w->block->of->race->number};
}

static bool touch_parts(warp *w, gpu_shadow *s, record me, uint64_t at, uint64_t end, int touch)
{
    for (; at < end; at++) {
        if (!s->word[at / 4].write.split) split(s, at / 4);
        if (!touch_cell(w, me.thread % LANES, s, &s->byte[at], me, touch)) return false;
    }
    return true;
}

static inline bool touch_bytes(warp *w, gpu_shadow *s, record me, uint64_t at, unsigned bytes, int touch)
{
    const uint64_t end = at + bytes;
    if (at % 4 || bytes % 4) return touch_parts(w, s, me, at, end, touch);
    for (; at < end; at += 4) {
        cell *c = &s->word[at / 4];
        if (c->write.split ? !touch_parts(w, s, me, at, at + 4, touch)
                           : !touch_cell(w, me.thread % LANES, s, c, me, touch))
            return false;
    }
    return true;
}

void race_touch(warp *w, int l, gpu_shadow *s, uint64_t at, unsigned bytes, int touch)
{
    const record me = me_of(w, l, touch);
    touch_bytes(w, s, me, at, bytes, touch);
}

void race_touch_lanes(warp *w, uint32_t mask, gpu_shadow *s, const uint64_t at[LANES], unsigned bytes, int touch)
{
    const record first = me_of(w, 0, touch);
    for (uint32_t m = mask; m; m &= m - 1) __builtin_prefetch(&s->word[at[__builtin_ctz(m)] / 4], 1);
    for (uint32_t m = mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        /* As a whole: a part that is written just before makes the processor wait. */
        const record me = {.half = {first.half[0], first.half[1] + ((uint64_t)l << 32)}};
        if (!touch_bytes(w, s, me, at[l], bytes, touch)) return;
    }
}
