/* arch.c - see arch.h. Reads only the [model] section of each embedded spec. */
#include "models/arch.h"

#include "base/embed.h"
#include "models/spec.h"
#include "models/spec_file.h"
#include "models/spec_split.h"

#include <stdio.h>
#include <string.h>

static bool is_format(const ckpt *c, const char *format) { return strcmp(ckpt_format(c), format) == 0; }

const char *arch_name(const ckpt *c, const json *config)
{
    const json *j = config ? config : ckpt_config(c);
    if (is_format(c, "gguf")) return json_str(json_get(ckpt_config(c), "general.architecture"), "unknown");
    if (is_format(c, "llama2c")) return "llama2";
    return json_str(json_first(json_get(j, "architectures")), json_str(json_get(j, "model_type"), "unknown"));
}

/* Whether the arch line of a built-in spec has the word "source:name". */
static bool spec_lists(span text, const char *file, const char *source, const char *name)
{
    spec_file f;
    bool found = false;
    if (spec_file_parse(&f, text, file, NULL)) return false;
    for (size_t i = 0; i < f.n && !found; i++) {
        if (strcmp(f.rows[i].section, "model") != 0 || strcmp(f.rows[i].key, "arch") != 0) continue;
        span rest = span_str(f.rows[i].text), part;
        size_t n = strlen(source);
        while (!found && split_next(&rest, ',', &part))
            found = part.n > n && memcmp(part.p, source, n) == 0 && span_is(span_of(part.p + n, part.n - n), name);
    }
    spec_file_free(&f);
    return found;
}

static bool find(const char *source, const char *name, char *out, size_t cap)
{
    for (const embedded_file *f = embedded_files; f->name; f++) {
        size_t n = strlen(f->name);
        if (n < 5 || strcmp(f->name + n - 4, ".ini") != 0) continue;
        if (!spec_lists(span_of(f->p, f->n), f->name, source, name)) continue;
        snprintf(out, cap, "%.*s", (int)(n - 4), f->name);
        return true;
    }
    return false;
}

int arch_find(const ckpt *c, const json *config, char *out, size_t cap, err *e)
{
    const char *name = arch_name(c, config);
    if (is_format(c, "gguf") || is_format(c, "llama2c")) {
        if (find(is_format(c, "gguf") ? "gguf:" : "llama2c:", name, out, cap)) return OK;
    } else {
        const json *j = config ? config : ckpt_config(c);
        for (const json *a = json_first(json_get(j, "architectures")); a; a = json_next(a))
            if (find("", json_str(a, ""), out, cap)) return OK;
        if (find("", json_str(json_get(j, "model_type"), ""), out, cap)) return OK;
        for (const json *m = json_first(j); m; m = json_next(m)) /* no name, but a telling key */
            if (find("has:", json_key(m), out, cap)) return OK;
        if (!j)
            return err_set(
                e, ERR_NOT_FOUND,
                "%s: no config.json beside it says what it is: give --spec FILE (two lines: [model] base = NAME)",
                ckpt_path(c));
    }
    return err_set(e, ERR_NOT_FOUND,
                   "%s: no built-in spec is for the architecture '%.80s' (inferflow spec list): write one, --spec FILE",
                   ckpt_path(c), name);
}
