/* at_once.c - see at_once.h. */
#include "net/at_once.h"

#include "base/mem.h"

#include <pthread.h>
#include <stdbool.h>

typedef struct call {
    int (*fn)(void *ctx, int i, err *e);
    void *ctx;
    int i, rc;
    err why;
    pthread_t thread;
    bool runs;
} call;

static void *make_call(void *arg)
{
    call *c = arg;
    c->rc = c->fn(c->ctx, c->i, &c->why);
    return NULL;
}

int at_once(int n, int (*fn)(void *ctx, int i, err *e), void *ctx, err *e)
{
    int rc = OK;
    call *all = n > 0 ? mem_zero((size_t)n, sizeof *all) : NULL;
    if (n > 0 && !all) return err_memory(e, "connections");
    for (int i = 0; i < n; i++) {
        all[i] = (call){.fn = fn, .ctx = ctx, .i = i};
        if (i + 1 < n) all[i].runs = pthread_create(&all[i].thread, NULL, make_call, &all[i]) == 0;
        if (!all[i].runs) make_call(&all[i]);
    }
    for (int i = 0; i < n; i++) {
        if (all[i].runs) pthread_join(all[i].thread, NULL);
        if (!rc && all[i].rc) rc = err_copy(e, &all[i].why);
    }
    mem_free(all);
    return rc;
}
