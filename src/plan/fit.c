/* fit.c - see fit.h. Each number of layers that is tried is cut and laid out as a plan is, but nothing is opened; a set
 * without weights tells what the device has. */
#include "plan/fit.h"

#include "base/mem.h"
#include "plan/plan_state.h"

bool fit_list(buf *out, int layers, int n, const char *rest, const char *device)
{
    if (!n || n == layers) return buf_str(out, n ? device : rest);
    return buf_printf(out, "%s*%d;%s*%d", rest, layers - n, device, n);
}

/* What a rank takes of the memory of its device. */
static int add_rank(const fit_ask *a, const plan *l, const plan_rank *r, const weight_set *w, uint64_t *bytes, err *e)
{
    const segment *s = &r->seg;
    const dtype kv = a->kv_type(a->ctx, l);
    uint64_t page[GROUP_MAX] = {0};
    bool *reads = mem_zero((size_t)s->p->n_weight + 1, sizeof *reads);
    if (!reads) return err_memory(e, "a list of weights");
    rank_weights_note(s->p, reads);
    add_page_bytes(s->p, kv, kv, page);
    *bytes += s->be->weights_take(s->p, reads) + rank_step_bytes(r, w) + (uint64_t)a->slots * program_slot_bytes(s->p);
    for (int g = 0; g < GROUP_MAX; g++) *bytes += (uint64_t)a->pages[g] * page[g];
    mem_free(reads);
    return OK;
}

/* Whether the last n layers fit; a model that cannot be divided there does not. */
static int try_layers(bool *fits, const fit_ask *a, const device_here *d, const weight_set *w, const buf *text, err *e)
{
    plan_options o = *a->o;
    device_list devices;
    plan *l = NULL;
    err own = {0};
    uint64_t bytes = a->beside;
    *fits = false;
    if (text->bad) return err_memory(e, "a list of devices");
    int rc = device_list_parse(&devices, (const char *)text->p, o.backends, e);
    o.devices = &devices;
    o.only_cut = true;
    if (!rc) rc = plan_open(&l, a->p, &o, &own);
    if (own.code) rc = rc == ERR_USAGE ? OK : err_copy(e, &own);
    for (int i = 0; l && i < l->n && !rc; i++)
        if (l->ranks[i].seg.be == d->be) rc = add_rank(a, l, &l->ranks[i], w, &bytes, e);
    *fits = !rc && l && bytes <= d->be->budget(w);
    plan_close(l);
    device_list_close(&devices);
    return rc;
}

int fit_layers(int *n, const fit_ask *a, const device_here *d, const char *rest, err *e)
{
    const int all = a->p->n_enc + a->p->n_layer;
    bool *none = mem_zero((size_t)a->p->n_weight + 1, sizeof *none);
    weight_set *w = NULL;
    int rc =
        none ? d->be->weights_open(
                   &w, a->p, none,
                   &(weight_options){.number = d->number, .sharers = 1, .inexact = a->o->choices.exact == EXACT_OFF}, e)
             : err_memory(e, "a list of weights");
    *n = 0;
    for (int most = all; !rc && *n < most;) { /* *n fit, more than `most` do not */
        const int tried = most == all ? all : (*n + most + 1) / 2;
        bool fits;
        buf text = {0};
        fit_list(&text, all, tried, rest, d->name);
        buf_cstr(&text);
        rc = try_layers(&fits, a, d, w, &text, e);
        if (fits) *n = tried;
        else most = tried - 1;
        buf_free(&text);
    }
    if (w) d->be->weights_close(w);
    mem_free(none);
    return rc;
}
