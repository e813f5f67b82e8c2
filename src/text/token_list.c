/* token_list.c - see token_list.h. */
#include "text/token_list.h"

#include "base/mem.h"

bool token_list_grow(token_list *l)
{
    void *p = l->id;
    if (!mem_grow(&p, &l->cap, l->n + 1, sizeof *l->id)) return false;
    l->id = p;
    return true;
}

void token_list_free(token_list *l)
{
    mem_free(l->id);
    *l = (token_list){0};
}
