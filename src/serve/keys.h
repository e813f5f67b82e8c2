/* keys.h - the keys that clients must show. No key is ever logged or put into a message. */
#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct key_list {
    char **key; /* each with its name behind the NUL */
    size_t n, cap;
} key_list;

/* Reads one key per line, with a name behind " #" where it has one; blank lines and lines starting with '#' are
 * ignored. ERR_USAGE when there is none. */
int keys_read(key_list *out, const char *path, err *e);
void keys_free(key_list *l);
/* Compares in a time that depends on lengths only, with all keys: its number, -1: it is none. */
int keys_find(const key_list *l, const char *key);
/* The name of a key, for logs; without one "key 2", in `made`. */
const char *keys_name(const key_list *l, int which, char made[24]);
