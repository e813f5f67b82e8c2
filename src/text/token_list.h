/* token_list.h - a growing list of token ids. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct token_list {
    int32_t *id; /* {0} is a valid empty list; token_list_free */
    size_t n, cap;
} token_list;
void token_list_free(token_list *l);
bool token_list_grow(token_list *l); /* makes room for one more */

/* false: out of memory */
static inline bool token_list_add(token_list *l, int32_t id)
{
    if (l->n == l->cap && !token_list_grow(l)) return false;
    l->id[l->n++] = id;
    return true;
}
