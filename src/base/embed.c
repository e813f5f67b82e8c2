/* embed.c - see embed.h. */
#include "base/embed.h"

span embedded_find(const char *name)
{
    for (const embedded_file *f = embedded_files; f->name; f++)
        if (strcmp(f->name, name) == 0) return span_of(f->p, f->n);
    return (span){0};
}
