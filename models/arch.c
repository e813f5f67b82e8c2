/* arch.c - see arch.h. Reads only the [model] section of each embedded spec. */
#include "models/arch.h"

#include "base/embed.h"
#include "models/compile/wrapped.h"
#include "models/spec/spec.h"
#include "models/spec/spec_file.h"
#include "models/spec/spec_load.h"
#include "models/spec/spec_split.h"

#include <stdio.h>
#include <string.h>

const char *arch_name(const ckpt *c, const json *config)
{
    const json *j = config ? config : ckpt_config(c);
    if (ckpt_describes_itself(c)) return ckpt_arch(c);
    return json_str(json_first(json_get(j, "architectures")), json_str(json_get(j, "model_type"), "unknown"));
}

/* "Qwen2Model" and "Qwen2ForTokenClassification" are the network of "Qwen2ForCausalLM" without a head, and with another
 * one. */
static bool is_body(span listed, const char *name)
{
    static const char *const ends[] = {"ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering",
                                       "Model"};
    size_t n = 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends && !n; i++)
        if (str_ends(name, ends[i])) n = strlen(name) - strlen(ends[i]);
    if (!n || listed.n <= n || memcmp(listed.p, name, n) != 0) return false;
    const span rest = span_of(listed.p + n, listed.n - n);
    return span_starts(rest, "For") || span_is(rest, "Model") || span_is(rest, "LMHeadModel") ||
           span_is(rest, "MTModel");
}

/* "expert_count": whether the file has NAME.expert_count above zero; "expert_count=2": whether it is 2 (absent: 0). */
static bool key_holds(span key, const char *name, const json *file)
{
    const uint8_t *equal = memchr(key.p, '=', key.n);
    char full[128];
    snprintf(full, sizeof full, "%s.%.*s", name, (int)(equal ? (size_t)(equal - key.p) : key.n), (const char *)key.p);
    int64_t have = json_int(json_get(file, full), 0);
    return equal ? have == equal[1] - '0' : have > 0;
}

/* How a word of an arch line has to fit a name. */
typedef struct fit {
    const json *keyed; /* NULL, or keys after plus signs must hold in this file */
    bool body;         /* not the class itself, but another one of the same network */
} fit;

/* Whether "llama" is `name`; with `keyed`, whether "llama+expert_count" is and all keys after plus signs hold. */
static bool word_fits(span word, const char *name, fit how)
{
    span first = {0}, rest = word, key;
    split_next(&rest, '+', &first);
    if (!how.keyed || !rest.n) return !how.keyed && (how.body ? is_body(word, name) : span_is(word, name));
    bool fits = span_is(first, name);
    while (fits && split_next(&rest, '+', &key)) fits = key_holds(key, name, how.keyed);
    return fits;
}

/* Whether the arch line of a built-in spec has the word "source:name": 1 or 0, or a negative code. */
static int spec_lists(span text, const char *file, const char *source, const char *name, fit how, err *e)
{
    spec_file f;
    bool found = false;
    int rc = spec_file_parse(&f, text, file, e);
    if (rc) return rc;
    for (size_t i = 0; i < f.n && !found; i++) {
        if (strcmp(f.rows[i].section, "model") != 0 || strcmp(f.rows[i].key, "arch") != 0) continue;
        span rest = span_str(f.rows[i].text), part;
        size_t n = strlen(source);
        while (!found && split_next(&rest, ',', &part))
            found = part.n > n && memcmp(part.p, source, n) == 0 &&
                    word_fits(span_of(part.p + n, part.n - n), name, how);
    }
    spec_file_free(&f);
    return found;
}

/* As spec_lists, over all built-in specs; out gets the name. */
static int find_word(const char *source, const char *name, fit how, char *out, size_t cap, err *e)
{
    for (const embedded_file *f = embedded_files; f->name; f++) {
        size_t n = strlen(f->name);
        if (n < 5 || strcmp(f->name + n - 4, ".ini") != 0) continue;
        int found = spec_lists(span_of(f->p, f->n), f->name, source, name, how, e);
        if (found > 0) snprintf(out, cap, "%.*s", (int)(n - 4), f->name);
        if (found) return found;
    }
    return 0;
}

/* The spec that has the name itself; else one that has another class of the same network. */
static int find_arch(const char *source, const char *name, const json *keyed, char *out, size_t cap, err *e)
{
    int found = find_word(source, name, (fit){keyed, false}, out, cap, e);
    return found || keyed ? found : find_word(source, name, (fit){NULL, true}, out, cap, e);
}

/* 1 when the chain of bases of the built-in spec `name` has `base` in it, else 0, or a negative code. */
static int is_based_on(const char *name, const char *base, err *e)
{
    spec *s;
    char above[64] = "";
    for (int depth = 0; depth < SPEC_DEPTH_MAX; depth++) {
        int rc = spec_load_builtin(&s, depth ? above : name, e);
        if (rc) return rc;
        const char *next = spec_text(s, "model", "base");
        snprintf(above, sizeof above, "%s", next ? next : "");
        spec_free(s);
        if (!*above || strcmp(above, base) == 0) return *above != 0;
    }
    return 0;
}

/* The spec that model_type names, where it is based on that of the class: some classes serve several types. */
static int narrow_type(const char *type, char *out, size_t cap, err *e)
{
    char kind[64];
    int found = find_arch("", type, NULL, kind, sizeof kind, e);
    if (found > 0 && strcmp(kind, out) != 0 && (found = is_based_on(kind, out, e)) > 0) snprintf(out, cap, "%s", kind);
    return found < 0 ? found : 1;
}

/* The spec of the text model in a class that answers with text; others put other heads on it. */
static int find_wrapped(const json *j, char *out, size_t cap, err *e)
{
    const char *root = wrapped_root(j), *class = json_str(json_first(json_get(j, "architectures")), "ForCausalLM");
    if (!root || !(str_ends(class, "ForConditionalGeneration") || str_ends(class, "ForCausalLM") ||
                   str_ends(class, "ChatModel")))
        return 0;
    int not = find_arch("!", class, NULL, out, cap, e);
    return not < 0 ? not
           : not   ? 0
                   : find_arch("", json_str(json_get(json_get(j, root), "model_type"), ""), NULL, out, cap, e);
}

int arch_find(const ckpt *c, const json *config, char *out, size_t cap, err *e)
{
    const char *name = arch_name(c, config);
    const json *j = config ? config : ckpt_config(c);
    int found = 0;
    if (ckpt_describes_itself(c)) {
        char source[32];
        snprintf(source, sizeof source, "%s:", ckpt_source(c));
        found = find_arch(source, name, ckpt_config(c), out, cap, e);
        if (!found) found = find_arch(source, name, NULL, out, cap, e);
    } else {
        for (const json *a = json_first(json_get(j, "architectures")); a && !found; a = json_next(a))
            found = find_arch("", json_str(a, ""), NULL, out, cap, e);
        const char *type = json_str(json_get(j, "model_type"), "");
        const bool named = json_first(json_get(j, "architectures"));
        if (found > 0) found = narrow_type(type, out, cap, e);
        else if (!found && !named) found = find_arch("", type, NULL, out, cap, e);        /* no class says otherwise */
        for (const json *m = named ? NULL : json_first(j); m && !found; m = json_next(m)) /* one that one family has */
            found = find_arch("has:", json_key(m), NULL, out, cap, e);
        if (!found) found = find_wrapped(j, out, cap, e);
    }
    if (found) return found > 0 ? OK : found;
    if (!j && !ckpt_describes_itself(c))
        return err_set(
            e, ERR_NOT_FOUND,
            "%s: no config.json beside it says what it is: give --spec FILE (two lines: [model] base = NAME)",
            ckpt_path(c));
    char kind[64];
    const char *type = json_str(json_get(j, "model_type"), "");
    if (!ckpt_describes_itself(c) && find_arch("", type, NULL, kind, sizeof kind, NULL) > 0)
        return err_set(e, ERR_NOT_FOUND,
                       "%s: no built-in spec is for the class '%.80s'; its model_type '%.40s' is that of %s.ini, which "
                       "computes other classes: where it is right all the same, two lines of --spec FILE say so: "
                       "[model] base = %s",
                       ckpt_path(c), name, type, kind, kind);
    return err_set(e, ERR_NOT_FOUND,
                   "%s: no built-in spec is for the architecture '%.80s' (inferflow spec list); "
                   "`inferflow spec derive --model PATH` starts one for --spec FILE",
                   ckpt_path(c), name);
}
