/* drive.c - steps on their way through the devices.
 *
 * Groups of devices form a line. With one step under way at most, and no group of several, the caller's thread walks it
 * along the line. Else each device has a thread, which takes steps in the order in which they were sent, as soon as the
 * group before has done its part: at any moment every group may work, each on another step. The ranks of a group work
 * on the same step, stretch by stretch, and exchange rows in between; each has two threads with a lane, and while one
 * exchanges rows, the other computes the step after (turns.h). What a step writes for others is copied into memory of
 * that step, so an arena is free for the next one.
 *
 * A step that failed on one device is passed along without work, with its error. No thread allocates. */
#include "plan/drive.h"
#include "plan/joined.h"
#include "plan/parcels.h"
#include "plan/plan_show.h"
#include "plan/rank_exchange.h"
#include "plan/rank_pass.h"
#include "plan/results.h"
#include "plan/row_faults.h"
#include "plan/row_memory.h"
#include "plan/turns.h"

#include "base/clock.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

static flight *flight_of(const plan *l, uint64_t number) { return &l->flights[number % (uint64_t)l->in_flight]; }

/* ---- one segment of one step */

/* Where the columns of an activation that crosses lie, from column `from` on. */
static float *passed_at(const plan *l, const flight *f, uint32_t k, int64_t from)
{
    return f->passed[k] + from * l->max_rows[l->p->tensors[l->cross[k].t].axis];
}

/* Between rows of a rank's columns and their codes, which pass. */
static void encode_rows(const plan_rank *r, const float *rows, int64_t cols, int64_t n, uint8_t *to)
{
    const plan *l = r->of;
    const uint64_t bytes = passed_bytes(l, cols, 1);
    for (int64_t i = 0; i < n; i++, to += bytes)
        l->codecs->encode(l->wire, l->reduction.group, rows + i * cols, cols, to);
}

static void decode_rows(const plan_rank *r, const uint8_t *from, int64_t cols, int64_t n, float *rows)
{
    const plan *l = r->of;
    const uint64_t bytes = passed_bytes(l, cols, 1);
    for (int64_t i = 0; i < n; i++, from += bytes)
        l->codecs->decode(l->wire, l->reduction.group, from, cols, rows + i * cols);
}

/* Columns of an input, from the device that wrote them. */
static int take_parcel(rank_lane *a, const parcel *from, uint32_t k, cut_range c, int64_t rows, err *e)
{
    const segment *s = &a->seg;
    turn_take_for_rows(a);
    int rc = s->be->ways->parcel_take(from, s->on, s, a->of->of->cross[k].t, c.from, c.to - c.from, rows, e);
    turn_give(a, a->reached);
    return rc;
}

/* Columns of an input that one rank wrote. After *rc is set, what comes from elsewhere is still taken. */
static void put_part(plan *l, rank_lane *a, flight *f, uint32_t k, int from, int *rc, err *e)
{
    const segment *s = &a->seg;
    const plan_rank *giver = &l->ranks[from];
    const int64_t col0 = giver->sends[k].columns.from, cols = giver->sends[k].columns.to - col0;
    const int64_t rows = f->st->n[l->p->tensors[l->cross[k].t].axis];
    const bool here = is_here(l, giver);
    const parcel *direct = parcel_for(l, f, k, giver, a->of);
    if (direct) {
        if (!*rc) *rc = take_parcel(a, direct, k, giver->sends[k].columns, rows, e);
        return;
    }
    const void *bytes = here ? passed_at(l, f, k, col0) : NULL;
    err late = {0};
    int came = here ? OK : remote_take(a, k, from, passed_bytes(l, cols, rows), &bytes, &late);
    if (!*rc && came) *rc = came, *e = late;
    if (!*rc && a->plain) {
        decode_rows(a->of, bytes, cols, rows, a->plain);
        row_faults_find(l, f, &(rows_seen){l->cross[k].t, true, (int)(a->of - l->ranks), a->plain, rows, cols});
    }
    turn_take_for_rows(a);
    if (!*rc) *rc = s->be->act_put(s->on, s, l->cross[k].t, col0, cols, rows, a->plain ? a->plain : bytes, e);
    turn_give(a, a->reached);
    if (!here && bytes) remote_release(a, k, from);
}

static int put_inputs(plan *l, rank_lane *a, flight *f, err *e)
{
    int rc = OK;
    for (uint32_t k = 0; k < l->n_cross; k++) {
        const crossing *c = &l->cross[k];
        const plan_group *from = &l->groups[c->from];
        if (!f->st->n[l->p->tensors[c->t].axis] || !a->of->receives[k]) continue;
        for (int i = from->rank0; i < from->rank0 + from->ranks; i++)
            if (l->ranks[i].sends[k].t) put_part(l, a, f, k, i, &rc, e);
    }
    return rc;
}

/* Rows row0 … row0 + rows - 1 of a result for the caller: those of a rank's columns. */
static int get_rows(const plan *l, const rank_lane *a, const flight *f, uint32_t k, int64_t row0, int64_t rows, err *e)
{
    const segment *s = &a->seg;
    const cut_part *part = &a->of->sends[k];
    const int64_t width = tensor_count(&l->p->tensors[l->cross[k].t]), cols = part->columns.to - part->columns.from;
    float *to = f->result[l->cross[k].entry] + row0 * width;
    if (cols == width) return s->be->act_get(s->on, s, part->t, row0, rows, to, e);
    float *own = passed_at(l, f, k, part->columns.from);
    int rc = s->be->act_get(s->on, s, part->t, row0, rows, own, e);
    for (int64_t i = 0; i < rows && !rc; i++)
        memcpy(to + i * width + part->columns.from, own + i * cols, (size_t)cols * sizeof *to);
    return rc;
}

/* Rows of the head's result: of runs of rows that are wanted whole, the rows; of others, their best. */
static int get_logits(const plan *l, const rank_lane *a, const flight *f, uint32_t k, err *e)
{
    const plan_rank *r = a->of;
    best_logit *best = results_best_of(l, f, r->index);
    int rc = OK;
    for (int32_t i = 0, n; i < f->st->n[AXIS_OUT] && !rc; i += n) {
        const int32_t wanted = results_best(l, k, f->st, i);
        n = results_alike(l, k, f->st, i);
        rc = wanted ? results_pick(a, k, f->st, i, n, best, e) : get_rows(l, a, f, k, i, n, e);
        best += (int64_t)n * wanted;
    }
    return rc;
}

/* *rc: the device has failed; then others still get bytes, so that they need not wait. */
static void get_outputs(plan *l, rank_lane *a, flight *f, int *rc, err *e)
{
    const segment *s = &a->seg;
    const plan_rank *r = a->of;
    err late = {0};
    if (!*rc) *rc = remote_enter(a, e);
    for (uint32_t k = 0; k < l->n_cross; k++) {
        const crossing *c = &l->cross[k];
        const cut_part *part = &r->sends[k];
        const int64_t rows = f->st->n[l->p->tensors[c->t].axis];
        if (!part->t || !rows) continue;
        float *to = c->read_by_device || c->divided ? passed_at(l, f, k, part->columns.from) : NULL;
        float *plain = a->plain ? a->plain : to;
        parcel *direct = parcel_from(l, f, k, r);
        const bool leaves = c->read_by_device && parcels_leave(l, f, k, r);
        turn_take_for_rows(a);
        if (l->self >= 0) results_write(a, f, k, rc, e);
        else if (!*rc && c->entry == ENTRY_HEAD) *rc = get_logits(l, a, f, k, e);
        else if (!*rc && c->entry >= 0) *rc = get_rows(l, a, f, k, 0, rows, e);
        if (!*rc && direct) *rc = s->be->ways->parcel_fill(direct, s->on, s, part->t, rows, e);
        if (!*rc && leaves) *rc = s->be->act_get(s->on, s, part->t, 0, rows, plain, e);
        turn_give(a, a->reached);
        if (l->self >= 0) results_send(a, f, k, rc, e);
        if (!leaves) continue;
        if (!*rc && c->divided) step_tap_columns(f->st, l->p, c->t, part->columns, rows, plain);
        const int64_t cols = part->columns.to - part->columns.from;
        if (!*rc && a->plain) {
            row_faults_find(l, f, &(rows_seen){c->t, false, (int)(r - l->ranks), plain, rows, cols});
            encode_rows(r, plain, cols, rows, (uint8_t *)to);
        }
        int sent = remote_post_readers(a, k, to, &late);
        if (sent && !*rc) *rc = sent, *e = late;
    }
}

/* Adds the seconds that it took to *busy. */
static int run_stretch(rank_lane *a, const step *st, uint32_t i, double *busy, err *e)
{
    const segment *s = &a->seg;
    const plan *l = a->of->of;
    const double start = clock_now();
    __atomic_store_n(&a->computes, 1, __ATOMIC_RELEASE);
    int rc = s->be->start(s->on, s, i, st, e);
    if (!rc) rc = s->be->wait(s->on, e);
    if (!rc) pace_keep(&l->asked.pretended_speed, s, i, st, &l->cache, start, &a->of->late);
    *busy += clock_now() - start;
    __atomic_store_n(&a->computes, 0, __ATOMIC_RELAXED);
    __atomic_fetch_add(&a->computed, 1, __ATOMIC_RELAXED);
    return rc;
}

static int run_stretches(rank_lane *a, const step *st, double *busy, int rc, err *e)
{
    const plan_group *g = group_of(a->of->of, a->of);
    for (uint32_t i = 0; i < a->seg.n_stretch; i++) {
        if (i < g->n_coll) rank_exchange_enter(a, &rc, e);
        turn_take(a, i, st);
        if (!rc) rc = run_stretch(a, st, i, busy, e);
        if (i < g->n_coll) rank_exchange(a, &g->colls[i], i, st, &rc, e);
        else turn_give(a, i + 1);
    }
    return rc;
}

static int run_segment(rank_lane *a, flight *f, double *busy, err *e)
{
    plan_rank *r = a->of;
    plan *l = r->of;
    step own = *f->st;
    if (r->index != group_of(l, r)->shows) own.n_tap = 0;
    int rc = put_inputs(l, a, f, e);
    if (!rc || r->seg.n_stretch > 1) rc = run_stretches(a, &own, busy, rc, e);
    get_outputs(l, a, f, &rc, e);
    return rc;
}

/* The step on all ranks of the group, which their devices do together. */
static int run_joined(rank_lane *first, flight *f, double *busy, err *e)
{
    plan *l = first->of->of;
    const plan_group *g = group_of(l, first->of);
    plan_rank *ranks = &l->ranks[g->rank0];
    bool odd = false;
    int rc = OK;
    for (int i = 0; i < g->ranks && !rc; i++) rc = put_inputs(l, &ranks[i].lane[0], f, e);
    const double start = clock_now();
    if (!rc) rc = g->ways->start(g->joined, f->st, e);
    if (!rc) rc = g->ways->wait(g->joined, &odd, e);
    *busy += clock_now() - start;
    if (!rc && odd) {
        joined_leave(first, f);
        return run_segment(first, f, busy, e);
    }
    for (int i = 0; i < g->ranks; i++) get_outputs(l, &ranks[i].lane[0], f, &rc, e);
    pthread_mutex_lock(&l->lock);
    for (int i = 1; i < g->ranks; i++) ranks[i].busy += *busy;
    pthread_mutex_unlock(&l->lock);
    return rc;
}

static int run_alone(rank_lane *a, flight *f, double *busy, err *e)
{
    const plan *l = a->of->of;
    return a->of - l->ranks == l->results_to ? results_take(a, f, e) : run_segment(a, f, busy, e);
}

/* A step has failed: the device that is lost, of the rank or of its joined group, is named. */
static void note_broken(plan *l, const plan_rank *r, bool joined, err *e)
{
    const plan_group *g = group_of(l, r);
    const int first = joined ? g->rank0 : (int)(r - l->ranks), n = joined ? g->ranks : 1;
    char name[PLAN_DEVICE_NAME];
    for (int i = first; i < first + n; i++) {
        const segment *s = &l->ranks[i].seg;
        if (!s->be || !s->be->is_lost || !s->on || !s->be->is_lost(s->on)) continue;
        const char *node = l->ranks[i].node; /* this process: whoever leads it says so */
        plan_device_name(l, i, name);
        err_wrap(e, "%s", name + (*node ? strlen(node) + 1 : 0));
        pthread_mutex_lock(&l->lock);
        if (!l->broken.code) l->broken = *e;
        pthread_mutex_unlock(&l->lock);
        return;
    }
}

static void run_step(rank_lane *a, flight *f)
{
    plan_rank *r = a->of;
    plan *l = r->of;
    err e = {0};
    double busy = 0;
    bool leads;
    if (!joined_enter(a, f, &leads)) return;
    const int rc = (leads ? run_joined : run_alone)(a, f, &busy, &e);
    if (rc) note_broken(l, r, leads, &e);
    pthread_mutex_lock(&l->lock);
    r->busy += busy;
    if (rc && !f->rc) {
        f->why = e;
        f->rc = rc;
        f->failed_in = r->group;
    }
    pthread_mutex_unlock(&l->lock);
}

/* ---- threads */

/* Whether a step was sent, and all ranks here that come before group `g` have done it; under the lock. */
static bool is_there(const plan *l, int g, uint64_t number)
{
    for (int i = 0; i < l->n && l->ranks[i].group < g; i++)
        if (is_here(l, &l->ranks[i]) && lane_of(&l->ranks[i], number)->next <= number) return false;
    return l->sent > number;
}

/* Whether nothing more is to be waited for; under the lock. */
static bool is_over(const plan *l, uint64_t number)
{
    return is_there(l, l->n_group, number) && (flight_of(l, number)->remote == 0 || l->lost.code);
}

static void *drive_lane(void *arg)
{
    rank_lane *a = arg;
    plan_rank *r = a->of;
    plan *l = r->of;
    pthread_getcpuclockid(pthread_self(), &a->clock);
    mem_guard("a step");
    pthread_mutex_lock(&l->lock);
    for (;;) {
        while (!is_there(l, r->group, a->next) && !l->stopping) pthread_cond_wait(&l->changed, &l->lock);
        if (!is_there(l, r->group, a->next)) break;
        flight *f = flight_of(l, a->next);
        const bool failed = f->rc != OK && f->failed_in != r->group && !l->n_remote;
        pthread_mutex_unlock(&l->lock);
        if (!failed) run_step(a, f);
        pthread_mutex_lock(&l->lock);
        a->next += (uint64_t)r->n_lane;
        a->reached = 0;
        pthread_cond_broadcast(&l->changed);
        pthread_cond_broadcast(&r->turn);
    }
    pthread_mutex_unlock(&l->lock);
    mem_unguard();
    return NULL;
}

/* Bytes of an activation's rows at full capacity; 0: more than memory can have. */
static uint64_t rows_bytes(const plan *l, ref t)
{
    const tensor *a = &l->p->tensors[t];
    uint64_t bytes = 0;
    bool fits = mem_mul((uint64_t)tensor_count(a) * sizeof(float), (uint64_t)l->max_rows[a->axis], &bytes);
    return !fits ? 0 : bytes ? bytes : 1;
}

static void *rows_of(const plan *l, ref t)
{
    uint64_t bytes = rows_bytes(l, t);
    return bytes ? row_memory_take(l, bytes) : NULL;
}

/* Whether rows of a crossing lie in memory of the step. */
static bool is_kept(const crossing *c) { return c->read_by_device || c->divided; }

uint64_t drive_bytes(const plan *l)
{
    uint64_t sum = results_bytes(l), plain = 0;
    for (uint32_t k = 0; k < l->n_cross; k++) {
        const uint64_t rows = rows_bytes(l, l->cross[k].t);
        if (is_kept(&l->cross[k])) sum += rows;
        if (l->wire != WIRE_F32 && rows > plain) plain = rows;
    }
    for (int i = ENTRY_HEAD; i < ENTRY_COUNT && l->self < 0; i++) sum += rows_bytes(l, l->p->entries[i].out);
    return sum * (uint64_t)l->in_flight + plain * (uint64_t)l->lanes;
}

/* Each has a row at least. */
static size_t sequences_max(const plan *l) { return (size_t)l->max_rows[AXIS_TOK] + (size_t)l->max_rows[AXIS_SEQ] + 1; }

static int flight_open(const plan *l, flight *f, err *e)
{
    bool ok = (f->passed = mem_zero((size_t)l->n_cross + 1, sizeof *f->passed)) != NULL;
    ok = (f->faults = mem_zero(sequences_max(l), sizeof *f->faults)) && ok;
    ok = (f->best = row_memory_take(l, results_best_bytes(l))) && ok;
    for (uint32_t k = 0; k < l->n_cross && ok; k++)
        if (is_kept(&l->cross[k])) ok = (f->passed[k] = rows_of(l, l->cross[k].t)) != NULL;
    for (int i = ENTRY_HEAD; i < ENTRY_COUNT && ok; i++)
        if (l->p->entries[i].out && l->self < 0) ok = (f->result[i] = rows_of(l, l->p->entries[i].out)) != NULL;
    int rc = ok ? results_open(l, f, e) : err_memory(e, "steps under way");
    return rc ? rc : parcels_open(l, f, e);
}

/* Where rows pass coded: memory for those of any crossing. */
static int open_plain(const plan *l, plan_rank *r, err *e)
{
    for (uint32_t k = 0; k < l->n_cross && l->wire != WIRE_F32; k++) {
        const uint64_t bytes = rows_bytes(l, l->cross[k].t);
        if (l->cross[k].read_by_device && bytes > r->plain_bytes) r->plain_bytes = bytes;
    }
    bool ok = true;
    for (int i = 0; i < r->n_lane && r->plain_bytes; i++)
        ok = (r->lane[i].plain = row_memory_take(l, r->plain_bytes)) != NULL && ok;
    return ok ? OK : err_memory(e, "rows between devices");
}

static int start_lanes(plan_rank *r, err *e)
{
    for (int i = 0; i < r->n_lane; i++) {
        rank_lane *a = &r->lane[i];
        a->has_thread = pthread_create(&a->thread, NULL, drive_lane, a) == 0;
        if (!a->has_thread)
            return err_set(e, ERR_MEMORY, "a thread for device %d could not be started", (int)(r - r->of->ranks));
    }
    return OK;
}

int drive_open(plan *l, err *e)
{
    l->flights = mem_zero((size_t)l->in_flight, sizeof *l->flights);
    int rc = l->flights ? OK : err_memory(e, "steps under way");
    for (int i = 0; i < l->in_flight && !rc; i++) rc = flight_open(l, &l->flights[i], e);
    for (int i = 0; i < l->n_group && !rc; i++) {
        rc = rank_exchange_open(l, &l->groups[i], e);
        if (!rc) rc = joined_open(l, &l->groups[i], e);
    }
    for (int i = 0; i < l->n && !rc; i++)
        if (is_here(l, &l->ranks[i]) && i != l->results_to) {
            rc = open_plain(l, &l->ranks[i], e);
            if (!rc) rc = turns_open(&l->ranks[i], e);
        }
    for (int i = 0; i < l->n && !rc && drive_has_threads(l); i++)
        if (is_here(l, &l->ranks[i])) rc = start_lanes(&l->ranks[i], e);
    return rc;
}

void drive_close(plan *l)
{
    pthread_mutex_lock(&l->lock);
    l->stopping = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; l->ranks && i < l->n; i++)
        for (int k = 0; k < PLAN_LANES; k++)
            if (l->ranks[i].lane[k].has_thread) pthread_join(l->ranks[i].lane[k].thread, NULL);
    for (int i = 0; l->ranks && i < l->n; i++) {
        plan_rank *r = &l->ranks[i];
        for (int k = 0; k < PLAN_LANES; k++) row_memory_give(l, r->lane[k].plain, r->plain_bytes);
        turns_close(r);
    }
    for (int i = 0; l->groups && l->ranks && i < l->n_group; i++) {
        joined_close(&l->groups[i]);
        rank_exchange_close(l, &l->groups[i]);
    }
    for (int i = 0; l->flights && i < l->in_flight; i++) {
        flight *f = &l->flights[i];
        for (uint32_t k = 0; f->passed && k < l->n_cross; k++)
            row_memory_give(l, f->passed[k], rows_bytes(l, l->cross[k].t));
        for (int k = 0; k < ENTRY_COUNT; k++) row_memory_give(l, f->result[k], rows_bytes(l, l->p->entries[k].out));
        results_close(l, f);
        parcels_close(l, f);
        mem_free(f->passed);
        mem_free(f->faults);
        row_memory_give(l, f->best, results_best_bytes(l));
    }
    mem_free(l->flights);
}

/* ---- steps */

int plan_in_flight(const plan *l) { return l->in_flight; }

void plan_send(plan *l, const step *st)
{
    flight *f = flight_of(l, l->sent);
    pthread_mutex_lock(&l->lock);
    f->st = st;
    f->rc = OK;
    if (f->faulty) memset(f->faults, 0, sequences_max(l) * sizeof *f->faults);
    f->faulty = false;
    f->apart = false;
    f->remote = l->remote ? l->n_remote : 0;
    l->sent++;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    if (f->remote) l->remote->send(l->remote->self, l->sent - 1, st);
}

int plan_collect(plan *l, err *e)
{
    flight *f = flight_of(l, l->collected);
    if (drive_has_threads(l)) {
        pthread_mutex_lock(&l->lock);
        while (!is_over(l, l->collected)) pthread_cond_wait(&l->changed, &l->lock);
        if (!f->rc && l->lost.code) f->rc = err_copy(&f->why, &l->lost);
        l->collected++;
        pthread_mutex_unlock(&l->lock);
    } else {
        for (int i = 0; i < l->n && !f->rc; i++) run_step(&l->ranks[i].lane[0], f);
        l->collected++;
    }
    if (!f->rc) results_join_best(l, f);
    return f->rc ? err_copy(e, &f->why) : OK;
}

const float *plan_result(const plan *l, int entry) { return flight_of(l, l->collected - 1)->result[entry]; }

const best_logit *plan_best(const plan *l, int32_t row)
{
    const flight *f = flight_of(l, l->collected - 1);
    const best_logit *at = f->best;
    for (int32_t i = 0; i < row; i++) at += step_best(f->st, i);
    return at;
}

const row_fault *plan_faults(const plan *l)
{
    const flight *f = flight_of(l, l->collected - 1);
    return f->faulty ? f->faults : NULL;
}

int32_t plan_sequences(const plan *l) { return flight_of(l, l->collected - 1)->st->n_seq; }
