/* export_values.c - tensors that the program holds as numbers: factors of rotary positions (tensors in GGUF), and
 * trained numbers (metadata in GGUF, tensors in Hugging Face files). */
#include "base/mem.h"
#include "models/compile/bind.h"
#include "models/export/export_state.h"
#include "models/compile/module.h"

#include <stdio.h>
#include <string.h>

typedef struct numbers {
    float *at;
    size_t row; /* as many numbers */
} numbers;

static int give_numbers(void *self, uint64_t n, float *to, err *e)
{
    const numbers *f = self;
    (void)e;
    memcpy(to, f->at + n * f->row, f->row * sizeof *to);
    return OK;
}

static shape dims_of(const recipe *how, size_t n)
{
    if (how->lines > 1 && n % (size_t)how->lines == 0) return (shape){2, {how->lines, n / (size_t)how->lines}};
    return how->flat ? (shape){0} : (shape){1, {n}};
}

/* Adds the tensor of n numbers that a line of [tensors] names for the container; the caller fills it. *out NULL: no
 * name. */
static int add_numbers(exporter *x, const spec_row *row, const char *slot, int layer, size_t n, float **out)
{
    out_name name = {.slot = slot, .tensors = 1, .matrices = 1};
    bool any = false;
    int rc = row ? export_first_name(x, row, layer, false, &name.how, &any) : OK;
    *out = NULL;
    if (rc || !any) return rc;
    numbers *f = arena_array(&x->mem, 1, sizeof *f);
    const char *full = export_full_name(x, &name, 0);
    *out = arena_array(&x->mem, n, sizeof **out);
    if (!f || !*out || !full || !mem_grow((void **)&x->tensor, &x->cap, x->n + 1, sizeof *x->tensor))
        return export_oom(x);
    const shape dims = dims_of(&name.how, n);
    *f = (numbers){*out, dims.rank ? (size_t)dims.dim[dims.rank - 1] : 1};
    x->tensor[x->n++] = (write_tensor){.name = full,
                                       .type = x->kind == EXPORT_HF && x->type != DTYPE_NONE ? x->type : DTYPE_F32,
                                       .dims = dims,
                                       .row = give_numbers,
                                       .self = f};
    return OK;
}

/* ---- rotary positions */

/* The divisors of frequencies for sequences of a length, under the name of `role`. */
static int add_factors(exporter *x, const rope_params *p, const char *role, int length)
{
    float *at;
    int rc = add_numbers(x, spec_find(x->names, "tensors", role), role, OUTSIDE, (size_t)p->dims / 2, &at);
    if (!rc && at) export_factors(p, length, at);
    return rc;
}

static int add_rope(exporter *x)
{
    const rope_params *p = export_gguf_rope(x);
    if (!p) return OK;
    if (p->scaling == ROPE_LLAMA3) return add_factors(x, p, "rope_freqs", 1);
    if (p->scaling != ROPE_LONGROPE) return OK;
    if (export_rope_factors_equal(p)) return add_factors(x, p, "rope_freqs", 1);
    int rc = add_factors(x, p, "rope_short", 1);
    return rc ? rc : add_factors(x, p, "rope_long", INT32_MAX);
}

/* ---- trained numbers */

/* Whether some module takes a number of that name as an option or as a tensor (xIELU's alpha_p). */
static bool is_number_or_tensor(const char *role)
{
    for (size_t i = 0; i < module_count; i++)
        for (size_t k = 0; k < module_list[i]->n_weights; k++)
            if (strcmp(module_list[i]->weights[k].role, role) == 0) {
                const param *p = param_find(module_list[i]->params, module_list[i]->n_params, role);
                if (p && p->type == PARAM_FLOAT) return true;
            }
    return false;
}

int export_trained_value(exporter *x, const char *name, int layer, value *out, bool *found)
{
    *found = false;
    if (!is_number_or_tensor(name)) return OK;
    int rc = x->trained ? OK : bind_open(&x->trained, NULL, x->s, x->values, x->m->weights, NULL, x->e);
    for (size_t i = 0; i < x->s->n && !rc && !*found; i++) {
        const spec_row *row = &x->s->rows[i];
        const char *dot = strrchr(row->key, '.');
        bool of_name = strcmp(row->section, "tensors") == 0 && strncmp(row->key, "{i}.", 4) == 0 && dot &&
                       strcmp(dot + 1, name) == 0;
        size_t n = 0;
        const float *v = of_name ? bind_values(x->trained, row->key + 4, layer, &x->mem, &n, x->e) : NULL;
        *found = v && n == 1;
        if (*found) *out = (value){.kind = VALUE_NUMBER, .number = (double)v[0]};
        rc = x->e->code;
    }
    return rc;
}

/* The numbers that a slot of a layer was given ("scale.x"), or NULL. */
static const bound *numbers_of(const exporter *x, const char *slot, int layer)
{
    const program *p = x->m->prog;
    char name[200];
    snprintf(name, sizeof name, "dec.%d.%s", layer, slot);
    for (uint32_t i = 0; i < p->n_bound; i++)
        if (p->bounds[i].n && strcmp(p->bounds[i].name, name) == 0) return &p->bounds[i];
    return NULL;
}

/* A tensor for each layer whose slot has numbers. */
static int add_bound(exporter *x, const spec_row *row, const char *slot)
{
    for (int i = 0; i < config_layers(x->values); i++) {
        const bound *b = numbers_of(x, slot, i);
        float *at = NULL;
        int rc = b ? add_numbers(x, row, slot, i, b->n, &at) : OK;
        if (rc) return rc;
        if (at) memcpy(at, b->values, b->n * sizeof *at);
    }
    return OK;
}

/* "{i}.ffn.alpha_p": a tensor for each layer in which the name has a value. */
static int add_trained(exporter *x, const spec_row *row)
{
    const char *slot = strncmp(row->key, "{i}.", 4) == 0 ? row->key + 4 : "", *dot = strrchr(slot, '.');
    if (!dot) return OK;
    if (!config_knows(x->values, dot + 1) || !is_number_or_tensor(dot + 1)) return add_bound(x, row, slot);
    for (int i = 0; i < config_layers(x->values); i++) {
        value v;
        float *at;
        int rc = config_name(x->values, dot + 1, i, &v, x->e);
        if (rc) return rc;
        if (v.kind != VALUE_NUMBER) continue;
        if ((rc = add_numbers(x, row, slot, i, 1, &at))) return rc;
        if (!at) return OK;
        *at = (float)v.number;
    }
    return OK;
}

int export_add_values(exporter *x)
{
    int rc = add_rope(x);
    for (size_t i = 0; i < x->names->n && !rc; i++)
        if (strcmp(x->names->rows[i].section, "tensors") == 0) rc = add_trained(x, &x->names->rows[i]);
    return rc;
}
