/* part_share.c - see part_share.h. */
#include "net/part_share.h"

#include "base/cond.h"
#include "base/mem.h"
#include "net/part_state.h"

#include <string.h>

void parts_open(part_table *all)
{
    pthread_mutex_init(&all->lock, NULL);
    cond_open(&all->changed);
}

void parts_close(part_table *all)
{
    pthread_mutex_destroy(&all->lock);
    pthread_cond_destroy(&all->changed);
}

int parts_count(part_table *all)
{
    int n = 0;
    pthread_mutex_lock(&all->lock);
    for (const part *x = all->first; x; x = x->next) n++;
    pthread_mutex_unlock(&all->lock);
    return n;
}

/* What a part is a part of. Names of nodes do not change the cut: only whether a device is on one. */
static bool make_key(part *x, const part_ask *a)
{
    static const char *const choices[] = {"act_f32", "exact", "experts", "ends", "reduce", "codec_group"};
    const int32_t numbers[] = {a->asked->rank, a->asked->ranks, a->asked->ctx};
    buf b = {0};
    buf_add(&b, a->asked->identity, SHA256_BYTES);
    buf_add(&b, x->told.identity, SHA256_BYTES);
    for (int i = 0; i < 3; i++) buf_uint(&b, (uint32_t)numbers[i], 4);
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) plan_choice_write(&b, &a->asked->choices, choices[i]);
    buf_printf(&b, "%zu %s %zu %s", strlen(a->weights), a->weights, strlen(a->spec), a->spec);
    for (int i = 0; i < a->devices->n; i++) {
        const device_entry *d = device_at(a->devices, i);
        buf_printf(&b, " %d %d %s %d %a", d->group, d->node[0] != 0, d->name, d->number, d->share);
    }
    sha256_of(b.p, b.n, x->key);
    const bool made = !b.bad;
    buf_free(&b);
    return made;
}

/* Those of a rotation by the length of the text are made while steps run, for one leader. */
static bool has_fixed_ropes(const program *p)
{
    for (uint32_t i = 0; i < p->n_rope; i++) {
        const int scaling = p->ropes[i].params.scaling;
        if (scaling == ROPE_DYNAMIC || scaling == ROPE_LONGROPE) return false;
    }
    return true;
}

/* Under the lock, as the next two. */
static void unlist(part_table *all, part *x)
{
    part **at = &all->first;
    while (*at && *at != x) at = &(*at)->next;
    if (*at) *at = x->next;
}

static part *find_part(const part_table *all, const uint8_t key[SHA256_BYTES])
{
    part *x = all->first;
    while (x && memcmp(x->key, key, SHA256_BYTES)) x = x->next;
    return x;
}

static int await_opener(part_table *all, part *x, const hosted_rank *by, err *e)
{
    waiting w = {by, x->waits}, **at = &x->waits;
    x->waits = &w;
    while (x->opener && !hosted_is_over(by)) cond_wait(&all->changed, &all->lock, clock_now() + 0.1);
    while (*at != &w) at = &(*at)->next;
    *at = w.next;
    return x->opener ? err_copy(e, &by->why) : OK;
}

void part_give_back(part *x)
{
    if (!x) return;
    part_table *all = x->host->parts;
    pthread_mutex_lock(&all->lock);
    const bool last = --x->users == 0;
    if (last) unlist(all, x);
    pthread_mutex_unlock(&all->lock);
    if (last) part_close(x);
}

void part_forget(part *x)
{
    part_table *all = x->host->parts;
    pthread_mutex_lock(&all->lock);
    unlist(all, x);
    pthread_mutex_unlock(&all->lock);
}

/* One that others have, with a user more; *out is NULL where there is none: then `own`, which has the key, is listed as
 * one that opens. */
static int find_or_list(part **out, part *own, hosted_rank *by, err *e)
{
    part_table *all = own->host->parts;
    int rc = OK;
    *out = NULL;
    pthread_mutex_lock(&all->lock);
    for (part *x; !rc && !*out && (x = find_part(all, own->key));) {
        x->users++;
        if (x->opener) rc = await_opener(all, x, by, e);
        const bool open = !rc && find_part(all, own->key) == x; /* or that failed */
        pthread_mutex_unlock(&all->lock);
        const bool same = open && part_check(x, NULL) == OK;
        if (open && !same) part_forget(x);
        if (same) *out = x;
        else part_give_back(x);
        pthread_mutex_lock(&all->lock);
    }
    if (!rc && !*out) {
        own->next = all->first;
        all->first = own;
    }
    pthread_mutex_unlock(&all->lock);
    return rc;
}

int part_take(part **out, const part_ask *a, err *e)
{
    part_table *all = a->by->host->parts;
    part *x = mem_zero(1, sizeof *x);
    *out = NULL;
    if (!x) return err_memory(e, "a part of a model");
    x->host = a->by->host;
    x->users = 1;
    x->opener = a->by;
    int rc = part_read_list(x, a, e);
    if (!rc && x->told.has_trees && make_key(x, a)) rc = find_or_list(out, x, a->by, e);
    if (rc || *out) {
        part_close(x);
        return rc;
    }
    rc = part_open(x, a, e);
    pthread_mutex_lock(&all->lock);
    x->opener = NULL;
    if (rc || !has_fixed_ropes(x->m->prog)) unlist(all, x);
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->lock);
    if (rc) part_give_back(x);
    else *out = x;
    return rc;
}

void parts_add_progress(part_table *all, const hosted_rank *by, progress *to)
{
    pthread_mutex_lock(&all->lock);
    for (const part *x = all->first; x; x = x->next)
        for (const waiting *w = x->waits; w && x->opener; w = w->next)
            if (w->by == by) to->work += hosted_thread_work(x->opener);
    pthread_mutex_unlock(&all->lock);
}
