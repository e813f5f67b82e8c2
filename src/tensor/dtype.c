/* dtype.c - see dtype.h. */
#include "tensor/dtype.h"

#include "base/mem.h"

#include <stdio.h>
#include <strings.h>

const dtype_row dtype_info[DTYPE_COUNT] = {[DTYPE_NONE] = {"none", 0, 0, -1},
#define X(id, name, weights, bytes, ggml) [DTYPE_##id] = {name, weights, bytes, ggml},
                                           DTYPE_LIST(X)
#undef X
};

dtype dtype_by_name(const char *name)
{
    for (int t = 1; t < DTYPE_COUNT; t++)
        if (strcasecmp(dtype_info[t].name, name) == 0) return (dtype)t;
    return DTYPE_NONE;
}

dtype dtype_by_ggml(uint32_t id)
{
    for (int t = 1; t < DTYPE_COUNT; t++)
        if (dtype_info[t].ggml >= 0 && (uint32_t)dtype_info[t].ggml == id) return (dtype)t;
    return DTYPE_NONE;
}

bool dtype_bytes(dtype t, uint64_t n, uint64_t *bytes)
{
    const dtype_row *d = &dtype_info[t];
    return d->weights && n % d->weights == 0 && mem_mul(n / d->weights, d->bytes, bytes);
}

bool shape_count(const shape *s, uint64_t *n)
{
    *n = 1;
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] < 0 || !mem_mul(*n, (uint64_t)s->dim[i], n)) return false;
    return true;
}

char *shape_text(const shape *s, char *out, int cap)
{
    int n = snprintf(out, (size_t)cap, "[");
    for (int i = 0; i < s->rank && n < cap; i++)
        n += snprintf(out + n, (size_t)(cap - n), "%s%lld", i ? ", " : "", (long long)s->dim[i]);
    if (n < cap) snprintf(out + n, (size_t)(cap - n), "]");
    return out;
}
