/* export_rope.c - scaled rotary positions in containers that store them differently: keys of config.json, keys or
 * tensors of factors in GGUF.
 *
 * Of Llama 3's scaling, GGUF keeps only the factors that divide the frequencies. They are turned back into its four
 * numbers: with u = 1 / wavelength, the share s of a frequency that is kept, 1 / f = (1 - s) / factor + s, is between
 * its two bounds a line in u,
 *     s = (original * u - low) / (high - low),
 * so two of them give it but for a common measure, which low = 1 sets, as in every such model. Where that does not give
 * the factors again, they are written as they are: as longrope whose short and long factors are the same. */
#include "models/export/export_state.h"

#include <math.h>
#include <string.h>

const rope_params *export_gguf_rope(const exporter *x)
{
    const program *p = x->m->prog;
    if (x->kind != EXPORT_GGUF || !p->n_rope) return NULL;
    for (uint32_t i = 0; i < p->n_rope; i++) { /* layers may differ: what has factors is written as them */
        const int scaling = p->ropes[i].params.scaling;
        if (scaling == ROPE_LLAMA3 || scaling == ROPE_LONGROPE) return &p->ropes[i].params;
    }
    return &p->ropes[0].params;
}

bool export_rope_factors_equal(const rope_params *p)
{
    return memcmp(p->short_factor, p->long_factor, (size_t)p->dims / 2 * sizeof(float)) == 0;
}

void export_factors(const rope_params *p, int length, float *out)
{
    rope_params plain = *p;
    float scaled[ROPE_DIMS_MAX / 2], scale;
    if (p->scaling == ROPE_LONGROPE) {
        const float *list = length > p->original ? p->long_factor : p->short_factor;
        memcpy(out, list, (size_t)p->dims / 2 * sizeof *out);
        return;
    }
    plain.scaling = ROPE_NONE;
    rope_frequencies(&plain, length, out, &scale);
    rope_frequencies(p, length, scaled, &scale);
    for (int i = 0; i < p->dims / 2; i++) out[i] /= scaled[i];
}

/* ---- Llama 3 from its factors */

enum { LINE_TOLERANCE = 1 << 16 }; /* relative: 1 / LINE_TOLERANCE */

static bool gives_again(const rope_params *p, const float *factors)
{
    float own[ROPE_DIMS_MAX / 2];
    export_factors(p, 1, own);
    for (int i = 0; i < p->dims / 2; i++)
        if (fabsf(own[i] - factors[i]) > factors[i] / LINE_TOLERANCE) return false;
    return true;
}

/* The nearest whole number where one is near: configurations have whole numbers, float32 makes them inexact. */
static double rounded(double v)
{
    double whole = floor(v + 0.5);
    return fabs(v - whole) <= 1e-3 * fabs(v) ? whole : v;
}

/* Llama 3's numbers from the line through the outermost points of the middle band; with one point, high_freq is 4. */
static bool find_llama3(const rope_params *p, rope_params *out)
{
    float factors[ROPE_DIMS_MAX / 2], plain[ROPE_DIMS_MAX / 2], scale;
    double u[2] = {0}, s[2] = {0};
    int n = p->dims / 2, found = 0;
    *out = *p;
    out->scaling = ROPE_NONE;
    rope_frequencies(out, 1, plain, &scale);
    export_factors(p, 1, factors);
    out->factor = 1;
    for (int i = 0; i < n; i++) out->factor = fmax(out->factor, (double)factors[i]);
    out->factor = rounded(out->factor);
    if (!(out->factor > 1) || !isfinite(out->factor)) return false;
    for (int i = 0; i < n; i++) {
        double share = (1 / (double)factors[i] - 1 / out->factor) / (1 - 1 / out->factor);
        if (!(share > 1e-4 && share < 1 - 1e-4)) continue;
        int k = found ? 1 : 0;
        u[k] = (double)plain[i] / (2 * M_PI);
        s[k] = share;
        found++;
    }
    out->scaling = ROPE_LLAMA3;
    out->low_freq = 1;
    out->high_freq = 4;
    if (found > 1) {
        double slope = (s[1] - s[0]) / (u[1] - u[0]), below = slope * u[0] - s[0]; /* s = slope * u - below */
        out->high_freq = rounded(1 + 1 / below);
    }
    double original = found ? rounded((s[0] * (out->high_freq - 1) + 1) / u[0]) : 0;
    if (!(original >= 1 && original <= 1 << 30) || !(out->high_freq > 1)) return false;
    out->original = (int)original;
    return gives_again(out, factors);
}

/* ---- keys of config.json */

static const rope_params *with_factors(const exporter *x)
{
    for (uint32_t i = 0; x->kind == EXPORT_HF && i < x->m->prog->n_rope; i++)
        if (x->m->prog->ropes[i].params.scaling == ROPE_LONGROPE) return &x->m->prog->ropes[i].params;
    return NULL;
}

static value number_of(double v) { return (value){.kind = VALUE_NUMBER, .number = v}; }

static bool llama3_value(const rope_params *p, const char *name, value *out)
{
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"rope_factor", p->factor},
                   {"rope_low_freq", p->low_freq},
                   {"rope_high_freq", p->high_freq},
                   {"rope_original", p->original}};
    if (strcmp(name, "rope_type") == 0) return *out = (value){.kind = VALUE_TEXT, .text = "llama3"}, true;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(name, numbers[i].name) == 0) return *out = number_of(numbers[i].value), true;
    return false;
}

static int list_of_factors(exporter *x, const rope_params *p, int length, value *out)
{
    float factors[ROPE_DIMS_MAX / 2];
    size_t n = (size_t)p->dims / 2;
    value *items = arena_array(&x->mem, n, sizeof *items);
    if (!items) return export_oom(x);
    export_factors(p, length, factors);
    for (size_t i = 0; i < n; i++) items[i] = number_of((double)factors[i]);
    *out = (value){.kind = VALUE_LIST, .items = items, .n = n};
    return OK;
}

static bool is_scaled(const exporter *x)
{
    for (uint32_t i = 0; i < x->m->prog->n_rope; i++)
        if (x->m->prog->ropes[i].params.scaling != ROPE_NONE) return true;
    return false;
}

int export_rope_value(exporter *x, const char *name, value *out, bool *known)
{
    const rope_params *p = with_factors(x);
    rope_params llama3;
    *known = x->kind == EXPORT_HF && !is_scaled(x) && strcmp(name, "rope_original") == 0; /* none: nothing is scaled */
    if (!p || *known) return OK;
    if (export_rope_factors_equal(p) && find_llama3(p, &llama3)) {
        *known = llama3_value(&llama3, name, out);
        return OK;
    }
    *known = true;
    if (strcmp(name, "rope_type") == 0) return *out = (value){.kind = VALUE_TEXT, .text = "longrope"}, OK;
    if (strcmp(name, "rope_short") == 0) return list_of_factors(x, p, 1, out);
    if (strcmp(name, "rope_long") == 0) return list_of_factors(x, p, INT32_MAX, out);
    *known = strcmp(name, "rope_attention_factor") == 0 && p->attention_factor > 0;
    if (*known) *out = number_of(p->attention_factor);
    return OK;
}

/* ---- keys of GGUF */

bool export_rope_leaves_out(const exporter *x, const char *key)
{
    const rope_params *p = export_gguf_rope(x);
    return p && p->scaling == ROPE_LLAMA3 && strncmp(key, "rope.scaling.", 13) == 0;
}

bool export_rope_magnitude(const exporter *x, value *out)
{
    const rope_params *p = export_gguf_rope(x);
    float unused[ROPE_DIMS_MAX / 2], magnitude;
    if (!p || p->scaling != ROPE_LONGROPE || export_rope_factors_equal(p)) return false;
    rope_frequencies(p, 1, unused, &magnitude);
    *out = number_of((double)magnitude);
    return true;
}
