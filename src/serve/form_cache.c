/* form_cache.c - see form_cache.h. */
#include "serve/form_cache.h"

#include <string.h>

void form_cache_open(form_cache *c)
{
    *c = (form_cache){0};
    pthread_mutex_init(&c->lock, NULL);
}

void form_cache_close(form_cache *c)
{
    for (int i = 0; i < FORM_CACHE_SIZE; i++) grammar_drop(c->form[i]);
    pthread_mutex_destroy(&c->lock);
}

/* Puts a grammar in front of the first n. */
static void put_in_front(form_cache *c, grammar *g, int n)
{
    memmove(c->form + 1, c->form, (size_t)n * sizeof *c->form);
    c->form[0] = g;
}

grammar *form_cache_find(form_cache *c, form_kind kind, span source)
{
    grammar *found = NULL;
    pthread_mutex_lock(&c->lock);
    for (int i = 0; i < FORM_CACHE_SIZE && c->form[i] && !found; i++) {
        span of;
        if (grammar_source(c->form[i], &of) != (int)kind || !span_eq(of, source)) continue;
        found = grammar_keep(c->form[i]);
        put_in_front(c, c->form[i], i);
    }
    pthread_mutex_unlock(&c->lock);
    return found;
}

void form_cache_add(form_cache *c, grammar *g)
{
    span source;
    grammar *last;
    grammar_source(g, &source);
    if (source.n > FORM_CACHE_BYTES) return;
    pthread_mutex_lock(&c->lock);
    last = c->form[FORM_CACHE_SIZE - 1];
    put_in_front(c, grammar_keep(g), FORM_CACHE_SIZE - 1);
    pthread_mutex_unlock(&c->lock);
    grammar_drop(last);
}
