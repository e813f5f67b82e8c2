/* export_state.c - see export_state.h. */
#include "models/export/export_state.h"

#include "models/spec/spec_load.h"
#include "models/spec/spec_split.h"

#include <string.h>

const char *export_source(const exporter *x) { return x->kind == EXPORT_GGUF ? "gguf" : "hf"; }

int export_oom(const exporter *x) { return err_memory(x->e, "an export"); }

span export_arch_word(const spec *s, const char *source, bool small)
{
    const char *list = spec_text(s, "model", "arch");
    span rest = list ? span_str(list) : (span){0}, part;
    size_t n = strlen(source);
    while (split_next(&rest, ',', &part)) {
        const uint8_t *colon = memchr(part.p, ':', part.n);
        bool is_small = true;
        for (size_t i = 0; i < part.n; i++) is_small &= !(part.p[i] >= 'A' && part.p[i] <= 'Z');
        if (n == 0 && !colon && part.n && is_small == small) return part;
        if (n == 0 || !colon || (size_t)(colon - part.p) != n || memcmp(part.p, source, n) != 0) continue;
        const uint8_t *plus = memchr(part.p, '+', part.n); /* a condition, no part of the name */
        size_t end = plus ? (size_t)(plus - part.p) : part.n;
        return span_of(colon + 1, end - n - 1);
    }
    return (span){0};
}

/* Whether the model's spec, or one that it is based on, has an architecture's name for a kind of container. */
static bool is_known_to(const model *m, export_kind kind)
{
    const char *source = kind == EXPORT_GGUF ? "gguf" : "", *base;
    const spec *s = m->resolved;
    spec *held = NULL, *next;
    err none = {0};
    bool known = export_arch_word(s, source, false).n;
    for (int i = 0; i < SPEC_DEPTH_MAX && !known && (base = spec_text(s, "model", "base")); i++) {
        if (spec_load_base(&next, s, base, &none)) break;
        spec_free(held);
        s = held = next;
        known = export_arch_word(s, source, false).n;
    }
    spec_free(held);
    return known;
}

const char *export_hint(const model *m, export_kind kind)
{
    if (ckpt_own_spec(m->weights)) return "take the model that the quantized file was made of";
    if (!is_known_to(m, kind == EXPORT_HF ? EXPORT_GGUF : EXPORT_HF))
        return "the other form has no name for this architecture either: give the spec an arch, and hf: or gguf: names "
               "in "
               "[tensors], or keep it with the weights in one file (`inferflow quantize`)";
    return kind == EXPORT_HF
               ? "write a .gguf file instead"
               : "write a Hugging Face folder (inferflow export) or .safetensors (inferflow quantize) instead";
}
