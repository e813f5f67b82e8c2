/* key_list.h - keys of configurations that no spec reads: the harmless ones, and those that change what is computed. */
#pragma once
#include <stddef.h>

typedef struct known_key {
    const char *name;    /* '*' stands for any run of characters; of a nested key the last part is enough */
    const char *neutral; /* the JSON text that changes nothing; NULL: none does, the key is harmless */
    const char *type;    /* only for networks of this type; NULL: for all */
    const char *why;
} known_key;

extern const known_key known_keys[]; /* the first row that fits counts; name NULL ends the list */
