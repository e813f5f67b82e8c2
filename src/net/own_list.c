/* own_list.c - see own_list.h. */
#include "net/own_list.h"

#include "base/mem.h"
#include "base/pool.h"
#include "io/contents_cache.h"
#include "net/catalogue.h"
#include "net/msg.h"

int own_list_make(own_list *l, const model *m, err *e)
{
    contents_roots held = {0};
    if (l->order) return OK;
    uint32_t *order = mem_array((size_t)ckpt_count(m->weights) + 1, sizeof *order);
    char *cache = contents_cache_folder();
    int rc = order ? contents_roots_some(&held, m->weights, NULL, cache, 0, pool_default_threads(), e)
                   : err_memory(e, "a list of tensors");
    l->text.n = 0;
    if (!rc && !catalogue_write(&l->text, order, m->weights, &held, m->prog)) rc = err_memory(e, "a list of tensors");
    if (!rc && l->text.n > LIST_BYTES_MAX)
        rc = err_set(e, ERR_LIMIT, "the list of the model's tensors is too long for nodes: %zu bytes", l->text.n);
    if (!rc) sha256_of(l->text.p, l->text.n, l->digest);
    contents_roots_free(&held);
    mem_free(cache);
    if (!rc) l->order = order;
    else mem_free(order);
    return rc;
}

int own_list_make_flat(own_list *l, const model *m, err *e)
{
    contents held;
    if (l->flat.n) return OK;
    char *cache = contents_cache_folder();
    int rc = contents_hash(&held, m->weights, cache, pool_default_threads(), e);
    if (!rc && !catalogue_write_flat(&l->flat, m->weights, &held, m->prog)) rc = err_memory(e, "a list of tensors");
    contents_free(&held);
    mem_free(cache);
    return rc;
}

void own_list_free(own_list *l)
{
    buf_free(&l->text);
    buf_free(&l->flat);
    mem_free(l->order);
    *l = (own_list){.order = NULL};
}
