/* fit.c - see fit.h. What is tried is cut and laid out as a plan is, but nothing is opened; sets without weights tell
 * what the devices have. */
#include "plan/fit.h"

#include "base/mem.h"
#include "plan/plan_state.h"

#include <math.h>
#include <string.h>

/* ---- lists */

/* Whether layers first … end - 1 have experts. */
static bool have_experts(const program *p, int first, int end)
{
    bool any = false;
    for (uint32_t i = 0; i < p->n_op; i++) {
        const op *o = &p->ops[i];
        any = any || (o->kind == OP_MATMUL_EXP && o->layer >= first && o->layer < end);
    }
    return any;
}

/* Layers first … first + n - 1 on GPU i: a group for those without their experts, and one for the others. */
static void add_gpu(buf *out, const fit_ask *a, int i, int first, int n)
{
    const char *name = a->gpu[i].name;
    int apart = a->moe < first ? 0 : a->moe - first < n ? a->moe - first : n;
    if (!have_experts(a->p, first, first + apart)) apart = 0;
    if (apart) buf_printf(out, "%s%s*%d,0&%s*0,1", out->n ? ";" : "", name, apart, a->rest);
    if (n > apart) buf_printf(out, "%s%s*%d", out->n ? ";" : "", name, n - apart);
}

bool fit_list(buf *out, const fit_ask *a, const int *n)
{
    int first = a->p->n_enc + a->p->n_layer;
    for (int i = 0; i < a->n_gpu; i++) first -= n[i];
    if (first) buf_printf(out, "%s*%d", a->rest, first);
    for (int i = 0; i < a->n_gpu; first += n[i++]) add_gpu(out, a, i, first, n[i]);
    if (!out->bad && !memchr(out->p, ';', out->n) && !memchr(out->p, '&', out->n)) /* a device alone needs no share */
        out->n = (size_t)((const uint8_t *)memchr(out->p, '*', out->n) - out->p);
    return !out->bad;
}

/* ---- memory */

typedef struct fitting {
    const fit_ask *a;
    weight_set *set[FIT_DEVICES]; /* without weights */
    uint64_t has[FIT_DEVICES], takes[FIT_DEVICES];
} fitting;

/* What a rank takes of the memory of its device. */
static int add_rank(const fit_ask *a, const plan *l, const plan_rank *r, const weight_set *w, uint64_t *bytes, err *e)
{
    const segment *s = &r->seg;
    const dtype kv = a->kv_type(a->ctx, l);
    uint64_t page[GROUP_MAX] = {0}, host[GROUP_MAX] = {0};
    bool *reads = mem_zero((size_t)s->p->n_weight + 1, sizeof *reads);
    if (!reads) return err_memory(e, "a list of weights");
    rank_weights_note(s->p, reads);
    add_page_bytes(r, kv, kv, page, host);
    *bytes += s->be->weights_take(s->p, reads) + rank_step_bytes(r, w) +
              (uint64_t)a->slots * program_slot_bytes(s->p, a->slot_rows);
    for (int g = 0; g < GROUP_MAX; g++) *bytes += (uint64_t)a->pages[g] * page[g];
    mem_free(reads);
    return OK;
}

/* takes: what so many layers take on each GPU; a model that cannot be divided there takes all memory. */
static int measure(fitting *f, const int *n, err *e)
{
    const fit_ask *a = f->a;
    plan_options o = *a->o;
    device_list devices = {0};
    plan *l = NULL;
    buf text = {0};
    err own = {0};
    int rc = fit_list(&text, a, n) ? device_list_parse(&devices, buf_cstr(&text), o.backends, e)
                                   : err_memory(e, "a list of devices");
    o.devices = &devices;
    o.only_cut = true;
    if (!rc) rc = plan_open(&l, a->p, &o, &own);
    if (own.code) rc = rc == ERR_USAGE ? OK : err_copy(e, &own);
    for (int i = 0; i < a->n_gpu; i++) f->takes[i] = l ? a->beside : UINT64_MAX;
    for (int k = 0; l && k < l->n; k++)
        for (int i = 0; i < a->n_gpu && !rc; i++) {
            const plan_rank *r = &l->ranks[k];
            if (r->seg.be == a->gpu[i].be && r->number == a->gpu[i].number)
                rc = add_rank(a, l, r, f->set[i], &f->takes[i], e);
        }
    plan_close(l);
    device_list_close(&devices);
    buf_free(&text);
    return rc;
}

static int open_sets(fitting *f, err *e)
{
    const fit_ask *a = f->a;
    bool *none = mem_zero((size_t)a->p->n_weight + 1, sizeof *none);
    int rc = none ? OK : err_memory(e, "a list of weights");
    for (int i = 0; i < a->n_gpu && !rc; i++) {
        const device_here *d = &a->gpu[i];
        const weight_options o = {.number = d->number, .sharers = 1, .inexact = a->o->choices.exact == EXACT_OFF};
        rc = d->be->weights_open(&f->set[i], a->p, none, &o, e);
        if (!rc) f->has[i] = d->be->budget(f->set[i]);
    }
    mem_free(none);
    return rc;
}

/* ---- choosing */

/* In proportion to memory, rather more to the first ones: the last has the head. */
static void divide(const fitting *f, int *n, int asked)
{
    double all = 0, sum = 0;
    int last = 0;
    for (int i = 0; i < f->a->n_gpu; i++) all += (double)f->has[i];
    for (int i = 0; i < f->a->n_gpu; i++) {
        sum += (double)f->has[i];
        const int end = i + 1 < f->a->n_gpu ? (int)ceil(sum / all * asked - 1e-6) : asked;
        n[i] = end - last;
        last = end;
    }
}

/* Whether all GPUs have room for what they take. */
static bool have_room(const fitting *f)
{
    bool all = true;
    for (int i = 0; i < f->a->n_gpu; i++) all = all && f->takes[i] <= f->has[i];
    return all;
}

/* As many of the last `left` layers as fit each GPU, from the last one on; *left: those without room. */
static int fill(fitting *f, int *n, int *left, err *e)
{
    int rc = OK;
    memset(n, 0, (size_t)f->a->n_gpu * sizeof *n);
    for (int i = f->a->n_gpu; i-- > 0 && !rc;) {
        int fit = 0;
        for (int most = *left; !rc && fit < most;) { /* `fit` do, more than `most` do not */
            n[i] = most == *left ? most : (fit + most + 1) / 2;
            rc = measure(f, n, e);
            if (f->takes[i] <= f->has[i]) fit = n[i];
            else most = n[i] - 1;
        }
        n[i] = fit;
        *left -= fit;
    }
    return rc;
}

int fit_layers(int *n, const fit_ask *a, int asked, bool must, err *e)
{
    fitting f = {.a = a};
    int left = asked, rc = OK;
    if (a->n_gpu == 1 && must) {
        *n = asked;
        return OK;
    }
    rc = open_sets(&f, e);
    if (!rc) divide(&f, n, asked);
    if (!rc) rc = measure(&f, n, e);
    if (!rc && !have_room(&f)) {
        rc = fill(&f, n, &left, e);
        if (!rc && left && must) divide(&f, n, asked);
    }
    for (int i = 0; i < a->n_gpu; i++)
        if (f.set[i]) a->gpu[i].be->weights_close(f.set[i]);
    return rc;
}
