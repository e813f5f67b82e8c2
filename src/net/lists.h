/* lists.h - on a node: lists of tensors that leaders told it of (net/catalogue.h), by their digest, so that none is
 * sent twice: the last few in memory, more in the folder of the cache, where it has one. */
#pragma once
#include "base/buf.h"
#include "base/sha256.h"

#include <pthread.h>

enum { LISTS_KEPT = 4, LISTS_ON_DISK = 16 };

typedef struct kept_list {
    uint8_t digest[SHA256_BYTES];
    buf text;
    uint64_t used;
} kept_list;

typedef struct lists {
    const char *dir; /* NULL: none */
    pthread_mutex_t lock;
    kept_list kept[LISTS_KEPT];
    uint64_t uses;
} lists;

void lists_open(lists *l, const char *dir); /* dir must outlive it */
/* A copy of the list; false: it is not there. */
bool lists_get(lists *l, const uint8_t digest[SHA256_BYTES], buf *to);
void lists_put(lists *l, const uint8_t digest[SHA256_BYTES], span text);
void lists_close(lists *l);
