/* drive.c - steps on their way through the devices.
 *
 * Devices form a line. With one step under way at most, the caller's thread walks it along the line. With more, each
 * device has a thread, which takes steps in the order in which they were sent, as soon as the device before has done
 * its part: at any moment every device may work, each on another step. What a step writes for others is copied into
 * memory of that step, so a device's arena is free for the next one.
 *
 * A step that failed on one device is passed along without work, with its error. No thread allocates. */
#include "plan/drive.h"
#include "plan/plan_state.h"

#include "base/mem.h"

#include <string.h>

static flight *flight_of(const plan *l, uint64_t number) { return &l->flights[number % (uint64_t)l->in_flight]; }

/* ---- one segment of one step */

static int put_inputs(const plan *l, const segment *s, flight *f, err *e)
{
    int rc = OK;
    for (uint32_t i = 0; i < s->n_in && !rc; i++) {
        uint32_t k = 0;
        while (l->cross[k].t != s->in[i].t) k++;
        int64_t rows = f->st->n[s->p->tensors[s->in[i].t].axis];
        const int64_t cols = tensor_count(&s->p->tensors[s->in[i].t]);
        if (rows) rc = s->be->act_put(s->on, s, s->in[i].t, 0, cols, rows, f->passed[k], e);
    }
    return rc;
}

/* Rows of the head's result: of runs of rows that are wanted whole, the rows; of others, their best. */
static int get_logits(const segment *s, flight *f, ref t, float *to, err *e)
{
    const step *st = f->st;
    const int64_t width = tensor_count(&s->p->tensors[t]);
    int rc = OK;
    for (int32_t i = 0, next; i < st->n[AXIS_OUT] && !rc; i = next) {
        const bool best = st->best_only && st->best_only[i];
        for (next = i + 1; next < st->n[AXIS_OUT] && (st->best_only && st->best_only[next]) == best;) next++;
        rc = best ? s->be->pick(s->on, s, t, i, next - i, f->best + i, e)
                  : s->be->act_get(s->on, s, t, i, next - i, to + i * width, e);
    }
    return rc;
}

static int get_outputs(const plan *l, int i, flight *f, err *e)
{
    const segment *s = &l->stages[i].seg;
    int rc = OK;
    for (uint32_t k = 0; k < l->n_cross && !rc; k++) {
        const crossing *c = &l->cross[k];
        const int64_t rows = f->st->n[s->p->tensors[c->t].axis];
        if (c->from != i || !rows) continue;
        if (c->read_by_device) rc = s->be->act_get(s->on, s, c->t, 0, rows, f->passed[k], e);
        if (rc || c->entry < 0) continue;
        rc = c->entry == ENTRY_HEAD ? get_logits(s, f, c->t, f->result[ENTRY_HEAD], e)
                                    : s->be->act_get(s->on, s, c->t, 0, rows, f->result[c->entry], e);
    }
    return rc;
}

static void run_stage(const plan *l, int i, flight *f)
{
    const segment *s = &l->stages[i].seg;
    err e = {0};
    if (f->rc) return;
    int rc = put_inputs(l, s, f, &e);
    for (uint32_t k = 0; k < s->n_stretch && !rc; k++) {
        rc = s->be->start(s->on, s, k, f->st, &e);
        if (!rc) rc = s->be->wait(s->on, &e);
    }
    if (!rc) rc = get_outputs(l, i, f, &e);
    f->rc = rc;
    f->why = e;
}

/* ---- threads */

static void *drive_device(void *arg)
{
    stage *s = arg;
    plan *l = s->of;
    const int i = (int)(s - l->stages);
    mem_guard("a step");
    pthread_mutex_lock(&l->lock);
    for (;;) {
        const uint64_t *there = i ? &l->stages[i - 1].done : &l->sent;
        while (*there == s->done && !l->stopping) pthread_cond_wait(&l->changed, &l->lock);
        if (*there == s->done) break;
        pthread_mutex_unlock(&l->lock);
        run_stage(l, i, flight_of(l, s->done));
        pthread_mutex_lock(&l->lock);
        s->done++;
        pthread_cond_broadcast(&l->changed);
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
    return bytes ? mem_map(bytes) : NULL;
}

static int flight_open(const plan *l, flight *f, err *e)
{
    bool ok = (f->passed = mem_zero((size_t)l->n_cross + 1, sizeof *f->passed)) != NULL;
    ok = (f->best = mem_zero((size_t)l->max_rows[AXIS_OUT] + 1, sizeof *f->best)) && ok;
    for (uint32_t k = 0; k < l->n_cross && ok; k++)
        if (l->cross[k].read_by_device) ok = (f->passed[k] = rows_of(l, l->cross[k].t)) != NULL;
    for (int i = ENTRY_HEAD; i < ENTRY_COUNT && ok; i++)
        if (l->p->entries[i].out) ok = (f->result[i] = rows_of(l, l->p->entries[i].out)) != NULL;
    return ok ? OK : err_set(e, ERR_MEMORY, "out of memory for steps under way");
}

int drive_open(plan *l, err *e)
{
    l->flights = mem_zero((size_t)l->in_flight, sizeof *l->flights);
    int rc = l->flights ? OK : err_set(e, ERR_MEMORY, "out of memory for steps under way");
    for (int i = 0; i < l->in_flight && !rc; i++) rc = flight_open(l, &l->flights[i], e);
    for (int i = 0; i < l->n && !rc && l->in_flight > 1; i++) {
        stage *s = &l->stages[i];
        s->of = l;
        s->has_thread = pthread_create(&s->thread, NULL, drive_device, s) == 0;
        if (!s->has_thread) rc = err_set(e, ERR_MEMORY, "a thread for device %d could not be started", i);
    }
    return rc;
}

void drive_close(plan *l)
{
    pthread_mutex_lock(&l->lock);
    l->stopping = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->n; i++)
        if (l->stages[i].has_thread) pthread_join(l->stages[i].thread, NULL);
    for (int i = 0; l->flights && i < l->in_flight; i++) {
        flight *f = &l->flights[i];
        for (uint32_t k = 0; f->passed && k < l->n_cross; k++) mem_unmap(f->passed[k], rows_bytes(l, l->cross[k].t));
        for (int k = 0; k < ENTRY_COUNT; k++) mem_unmap(f->result[k], rows_bytes(l, l->p->entries[k].out));
        mem_free(f->passed);
        mem_free(f->best);
    }
    mem_free(l->flights);
}

/* ---- steps */

int plan_in_flight(const plan *l) { return l->in_flight; }

void plan_send(plan *l, const step *st)
{
    flight *f = flight_of(l, l->sent);
    f->st = st;
    f->rc = OK;
    pthread_mutex_lock(&l->lock);
    l->sent++;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

int plan_collect(plan *l, err *e)
{
    flight *f = flight_of(l, l->collected);
    const stage *last = &l->stages[l->n - 1];
    if (last->has_thread) {
        pthread_mutex_lock(&l->lock);
        while (last->done == l->collected) pthread_cond_wait(&l->changed, &l->lock);
        pthread_mutex_unlock(&l->lock);
    } else {
        for (int i = 0; i < l->n; i++) run_stage(l, i, f);
    }
    l->collected++;
    return f->rc ? err_set(e, f->rc, "%s", f->why.msg) : OK;
}

const float *plan_result(const plan *l, int entry) { return flight_of(l, l->collected - 1)->result[entry]; }

const best_logit *plan_best(const plan *l) { return flight_of(l, l->collected - 1)->best; }
