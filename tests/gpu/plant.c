/* plant.c - see plant.h. */
#include "tests/gpu/plant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/drv_state.h"

typedef struct fault {
    int line;
    char was[400], is[800];
} fault;

/* False: there is none. */
static bool read_fault(fault *f)
{
    const char *name = getenv("SOFT_GPU_PLANT");
    FILE *file = name ? fopen(name, "r") : NULL;
    if (name && !file) drv_say("SOFT_GPU_PLANT: there is no file %s", name);
    if (!file) return false;
    char number[32];
    const bool good = fgets(number, sizeof number, file) && fgets(f->was, sizeof f->was, file) &&
                      fgets(f->is, sizeof f->is, file) && (f->line = atoi(number)) > 0;
    fclose(file);
    if (!good) drv_say("SOFT_GPU_PLANT: %s does not have three lines", name);
    return good;
}

char *plant_text(const char *text)
{
    fault f;
    if (!read_fault(&f)) return NULL;
    const char *at = text;
    for (int i = 1; at && i < f.line; i++) at = (at = strchr(at, '\n')) ? at + 1 : NULL;
    const size_t was = strlen(f.was), is = strlen(f.is), before = at ? (size_t)(at - text) : 0;
    if (!at || strncmp(at, f.was, was)) return NULL;
    char *out = malloc(strlen(text) + is + 1);
    if (!out) abort();
    memcpy(out, text, before);
    memcpy(out + before, f.is, is);
    strcpy(out + before + is, at + was);
    drv_say("planted in line %d: %.*s", f.line, (int)is - 1, f.is);
    return out;
}

bool plant_now(const char *what)
{
    static uint64_t seen;
    const char *asked = getenv("SOFT_GPU_DROP");
    return asked && !strncmp(asked, what, strlen(what)) && ++seen == strtoull(asked + strlen(what), NULL, 10);
}

static bool is_asked(const char *asked, const char *kernel, uint64_t *seen)
{
    const char *at = asked ? strchr(asked, ':') : NULL;
    return at && strlen(kernel) == (size_t)(at - asked) && !strncmp(asked, kernel, strlen(kernel)) &&
           ++*seen == strtoull(at + 1, NULL, 10);
}

bool plant_stops(const char *kernel)
{
    static uint64_t seen;
    return is_asked(getenv("SOFT_GPU_STOP"), kernel, &seen);
}

bool plant_hangs(const char *kernel)
{
    static uint64_t seen;
    return is_asked(getenv("SOFT_GPU_HANG"), kernel, &seen);
}

void plant_cover(program *p)
{
    if (getenv("SOFT_GPU_COVER") && !(p->ran = calloc((size_t)p->n_code + 1, 1))) abort();
}

void plant_covered(const program *p)
{
    FILE *file = p->ran ? fopen(getenv("SOFT_GPU_COVER"), "a") : NULL;
    if (!file) return;
    for (int i = 0; i < p->n_code; i++)
        if (p->ran[i]) fprintf(file, "%s %d\n", p->m->function[p->m->n_function - 1].name, p->code[i].line);
    fclose(file);
}
