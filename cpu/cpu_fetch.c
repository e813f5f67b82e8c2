/* cpu_fetch.c - chooses the way in which weights are fetched for one and two rows (fetch_way.h), by measurement.
 *
 * When the weights are there, each kind of them is multiplied by zeros, slice by slice: one way after the other, in
 * turn, on all threads that will decode. Slices follow one another through the weights, so that each is read from
 * where it lies, and none twice before all others. Before each slice the same way multiplies LEAD bytes that are not
 * timed, so that the first lines of the slice were prefetched by this way and not by the previous one. All that is
 * measured takes BUDGET seconds at most, the largest kind first.
 *
 * The machine may be busy meanwhile. Ways are compared within a round, which takes some 100 us, and another way than
 * FETCH_NEAR is taken where it wins most rounds, and the median of them by GAIN: what is no faster is hardly ever
 * taken, and what is slower never. A choice holds for the process: devices that are opened later take it over. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cpu/cpu.h"
#include "tensor/act_q8.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a slice; rounds, and how many are enough; kinds of a model, and choices that the process remembers. */
enum { SLICE = 256 << 10, LEAD = 2 * SPLIT_BLOCK, ROUNDS = 24, ROUNDS_MIN = 6, KINDS_MAX = 16, KNOWN_MAX = 64 };
/* What lies in the caches is another matter than what does not. */
enum { CACHED = 16 << 20 };
#define BUDGET 0.035
#define GAIN   0.97

static const char *const way_names[FETCH_WAYS] = {"near", "far", "none", "split"};

/* Weights that one body streams. */
typedef struct kind {
    dtype type;
    bool packed;
    uint64_t bytes;
} kind;

typedef struct choice {
    const cpu_table *table;
    kind of; /* bytes: 1 where they do not lie in the caches, else 0 */
    int threads;
    uint8_t way[FETCH_ROWS];
} choice;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static choice known[KNOWN_MAX];
static int n_known;

/* ---- slices of the weights of a kind, one after the other, and again from the first */

typedef struct walk {
    const weight_set *s;
    kind of;
    uint32_t weight;
    int64_t part, unit; /* where the next slice begins; units: panels or rows */
} walk;

static bool is_of(const weight_set *s, uint32_t i, kind k)
{
    const held_weight *w = &s->held[i];
    return w->streams && w->type == k.type && w->packed == k.packed;
}

/* The run of rows that `part` of a weight is, as it lies in memory. */
static held_weight run_of(const weight_set *s, uint32_t i, int64_t part)
{
    const held_weight *w = &s->held[i];
    return w->part ? held_part(w, part, w->rows / s->p->weights[i].parts) : *w;
}

static int64_t units_of(const held_weight *w) { return w->packed ? (w->rows + 15) / 16 : w->rows; }

/* The next slice of at most so many bytes and one unit. */
static held_weight next_slice(walk *at, int64_t bytes)
{
    const uint32_t n = at->s->p->n_weight;
    while (!is_of(at->s, at->weight, at->of)) at->weight = (at->weight + 1) % n;
    held_weight w = run_of(at->s, at->weight, at->part);
    const int64_t all = units_of(&w), most = bytes / (int64_t)w.stride + 1, slices = (all + most - 1) / most,
                  each = (all + slices - 1) / slices, left = all - at->unit < each ? all - at->unit : each;
    w.data += (uint64_t)at->unit * w.stride;
    if (w.packed) w.rows = left * 16;
    else w.rows = left;
    at->unit += left;
    if (at->unit < all) return w;
    at->unit = 0;
    if (at->s->held[at->weight].part && ++at->part < at->s->p->weights[at->weight].parts) return w;
    at->part = 0;
    at->weight = (at->weight + 1) % n;
    return w;
}

/* ---- measuring */

typedef struct trial {
    weight_set *s;
    kind of;
    double end;                                        /* clock_now: no more after that */
    double (*seconds)[FETCH_ROWS][FETCH_WAYS][ROUNDS]; /* [workers], for each byte */
    int *rounds;                                       /* [workers] whole ones */
    float *space;                                      /* [workers][floats] zeros, then results */
    uint64_t floats;
} trial;

static _Thread_local volatile uint8_t touched;

/* Maps the pages of a slice, without reading all of it. */
static void touch(const held_weight *w)
{
    static const uint64_t page = 4096;
    const uint64_t bytes = (uint64_t)units_of(w) * w->stride;
    for (uint64_t i = 0; i < bytes; i += page) touched = w->data[i];
}

static void measure_share(void *arg, int worker, int workers)
{
    trial *t = arg;
    float *x = t->space + (uint64_t)worker * t->floats, *y = x + t->floats / 2;
    const cpu_table *table = t->s->table;
    const int most = t->of.packed ? table->stream_rows : 1;
    walk at = {.s = t->s, .of = t->of};
    for (uint64_t skipped = 0; skipped < t->of.bytes / (uint64_t)workers * (uint64_t)worker;) {
        const held_weight w = next_slice(&at, SLICE);
        skipped += (uint64_t)units_of(&w) * w.stride;
    }
    for (int r = 0; r < ROUNDS; r++, t->rounds[worker]++)
        for (int rows = 1; rows <= most; rows++)
            for (int i = 0; i < FETCH_WAYS; i++) {
                held_weight lead = next_slice(&at, LEAD), w = next_slice(&at, SLICE);
                const int way = (i + r) % FETCH_WAYS;
                touch(&lead);
                touch(&w);
                lead.way[rows - 1] = w.way[rows - 1] = (uint8_t)way;
                table->stream(&lead, rows, x, y);
                const double from = clock_now();
                if (from > t->end) return;
                table->stream(&w, rows, x, y);
                t->seconds[worker][rows - 1][way][r] = (clock_now() - from) /
                                                       (double)((uint64_t)units_of(&w) * w.stride);
            }
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The way that rows rows are to take, by so many whole rounds of all workers. */
static fetch_way best_way(const trial *t, int workers, int rows, int rounds)
{
    fetch_way best = FETCH_NEAR;
    double least = GAIN;
    for (int way = FETCH_NEAR + 1; way < FETCH_WAYS; way++) {
        double ratio[ROUNDS];
        int wins = 0;
        for (int r = 0; r < rounds; r++) {
            double near = 0, other = 0;
            for (int i = 0; i < workers; i++) {
                near += t->seconds[i][rows - 1][FETCH_NEAR][r];
                other += t->seconds[i][rows - 1][way][r];
            }
            ratio[r] = other / near;
            wins += ratio[r] < 1;
        }
        qsort(ratio, (size_t)rounds, sizeof *ratio, compare);
        const double median = ratio[rounds / 2];
        if (wins < (3 * rounds + 3) / 4 || median > least) continue;
        least = median;
        best = (fetch_way)way;
    }
    return best;
}

/* Floats that the activations of a slice take, or its results, whatever weight of the kind it is of. */
static uint64_t floats_of(const weight_set *s, kind k)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < s->p->n_weight; i++) {
        if (!is_of(s, i, k)) continue;
        const held_weight *w = &s->held[i];
        const uint64_t units = SLICE / w->stride + 1, outputs = FETCH_ROWS * (k.packed ? 16 * units : units);
        const uint64_t inputs = k.packed
                                    ? FETCH_ROWS * act_row_bytes(w->cols, panel_format_of(k.type)->act) / sizeof(float)
                                    : ((uint64_t)w->cols + 63) / 64 * 64;
        if (outputs > most) most = outputs;
        if (inputs > most) most = inputs;
    }
    return 2 * ((most + 31) / 16 * 16);
}

static void measure_kind(weight_set *s, choice *c, kind k, double end)
{
    const int workers = pool_workers(s->team);
    trial t = {.s = s, .of = k, .end = end, .floats = floats_of(s, k)};
    t.seconds = mem_zero((size_t)workers, sizeof *t.seconds);
    t.rounds = mem_zero((size_t)workers, sizeof *t.rounds);
    t.space = mem_map((uint64_t)workers * t.floats * sizeof(float));
    if (t.seconds && t.rounds && t.space) {
        pool_run(s->team, measure_share, &t);
        int rounds = ROUNDS;
        for (int i = 0; i < workers; i++)
            if (t.rounds[i] < rounds) rounds = t.rounds[i];
        for (int rows = 1; rows <= (k.packed ? s->table->stream_rows : 1) && rounds >= ROUNDS_MIN; rows++)
            c->way[rows - 1] = (uint8_t)best_way(&t, workers, rows, rounds);
        if (rounds < ROUNDS_MIN) c->table = NULL;
    }
    mem_free(t.seconds);
    mem_free(t.rounds);
    mem_unmap(t.space, (uint64_t)workers * t.floats * sizeof(float));
}

/* ---- kinds of a device */

/* Marks the weights that activations are multiplied by. */
static void mark_streams(weight_set *s)
{
    for (uint32_t i = 0; i < s->p->n_op; i++) {
        const op *o = &s->p->ops[i];
        if (o->kind != OP_MATMUL && o->kind != OP_MATMUL_EXP && o->kind != OP_MATMUL_HEADS) continue;
        held_weight *w = &s->held[s->p->tensors[o->in[1]].weight];
        w->streams = w->data && (w->packed || dtype_is_float(w->type));
    }
}

/* The kinds, largest first. */
static int list_kinds(const weight_set *s, kind to[KINDS_MAX])
{
    int n = 0;
    for (uint32_t i = 0; i < s->p->n_weight; i++) {
        const held_weight *w = &s->held[i];
        if (!w->streams) continue;
        int k = 0;
        while (k < n && (to[k].type != w->type || to[k].packed != w->packed)) k++;
        if (k == KINDS_MAX) continue;
        if (k == n) to[n++] = (kind){w->type, w->packed, 0};
        to[k].bytes += (uint64_t)units_of(w) * w->stride;
    }
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && to[j].bytes > to[j - 1].bytes; j--) {
            const kind other = to[j];
            to[j] = to[j - 1];
            to[j - 1] = other;
        }
    return n;
}

static bool choices_equal(const choice *a, const choice *b)
{
    return a->table == b->table && a->of.type == b->of.type && a->of.packed == b->of.packed &&
           a->of.bytes == b->of.bytes && a->threads == b->threads;
}

static bool recall(choice *c)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_known && !found; i++)
        if ((found = choices_equal(&known[i], c))) *c = known[i];
    pthread_mutex_unlock(&lock);
    return found;
}

static void remember(const choice *c)
{
    pthread_mutex_lock(&lock);
    if (n_known < KNOWN_MAX) known[n_known++] = *c;
    pthread_mutex_unlock(&lock);
}

void cpu_fetch_choose(weight_set *s)
{
    kind kinds[KINDS_MAX];
    const double end = clock_now() + BUDGET;
    if (!s->table->stream) return;
    mark_streams(s);
    const int n = list_kinds(s, kinds);
    for (int i = 0; i < n; i++) {
        const kind k = kinds[i];
        choice c = {s->table, {k.type, k.packed, k.bytes > CACHED}, pool_workers(s->team), {0}};
        if (k.bytes < SLICE) continue;
        if (!recall(&c)) {
            measure_kind(s, &c, k, end);
            if (!c.table) continue;
            remember(&c);
            log_line(LOG_DEBUG, "%s weights on %d threads are fetched %s for one row, %s for two",
                     dtype_info[k.type].name, c.threads, way_names[c.way[0]], way_names[c.way[1]]);
        }
        for (uint32_t w = 0; w < s->p->n_weight; w++)
            if (is_of(s, w, k)) memcpy(s->held[w].way, c.way, sizeof c.way);
    }
}

void cpu_fetch_tell(const weight_set *s, json *to)
{
    for (uint32_t i = 0; i < s->p->n_weight; i++) {
        const held_weight *w = &s->held[i];
        const char *name = dtype_info[w->type].name;
        if (!w->streams || json_type(json_get(to, name)) != JSON_NULL) continue;
        json *list = json_add_array(to, name);
        for (int rows = 0; rows < (w->packed ? s->table->stream_rows : 1); rows++)
            json_add_str(list, NULL, way_names[w->way[rows]]);
    }
}
