/* form_cache.h - the grammars of the last requests, by their sources: the same form is compiled once, and the masks
 * that one request has made serve the next. */
#pragma once
#include "sample/form_source.h"

#include <pthread.h>

enum { FORM_CACHE_SIZE = 4, FORM_CACHE_BYTES = 64 << 10 }; /* bytes: of one source; longer ones are not kept */

typedef struct form_cache {
    pthread_mutex_t lock;
    grammar *form[FORM_CACHE_SIZE]; /* used last in front; NULL behind the last */
} form_cache;

void form_cache_open(form_cache *c);
void form_cache_close(form_cache *c);
/* For grammar_drop; NULL: it is not there. */
grammar *form_cache_find(form_cache *c, form_kind kind, span source);
void form_cache_add(form_cache *c, grammar *g); /* keeps it */
