/* spec_text.c - see spec_text.h. */
#include "app/spec_text.h"

#include "base/embed.h"
#include "models/derive/derive.h"
#include "models/model.h"
#include "models/compile/module.h"
#include "models/spec/spec_load.h"
#include "models/spec/spec_file.h"
#include "models/spec/spec_keys.h"

#include <stdlib.h>
#include <string.h>

static const char *row_of(const spec_file *f, const char *key)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->rows[i].section, "model") == 0 && strcmp(f->rows[i].key, key) == 0) return f->rows[i].text;
    return "";
}

int spec_text_list(buf *out, err *e)
{
    const char *name;
    for (size_t i = 0; (name = spec_builtin_name(i)); i++) {
        spec_file f;
        span text = embedded_find(name);
        int rc = spec_file_parse(&f, text, name, e);
        if (rc) return rc;
        buf_printf(out, "%-14.*s %s\n%-14s for %s\n", (int)strlen(name) - 4, name, row_of(&f, "doc"), "",
                   row_of(&f, "arch"));
        spec_file_free(&f);
    }
    return out->bad ? err_memory(e, NULL) : OK;
}

static void print_range(const param *p, buf *out)
{
    if (p->min == 0 && p->max == 0) return;
    buf_printf(out, ", %.15g to %.15g", p->min, p->max);
}

static void print_param(const param *p, buf *out)
{
    static const char *const type[] = {
        [PARAM_INT] = "whole number", [PARAM_FLOAT] = "number", [PARAM_BYTES] = "bytes", [PARAM_BOOL] = "true or false",
        [PARAM_TEXT] = "text",        [PARAM_WORD] = "",        [PARAM_CHOICE] = ""};
    buf_printf(out, "    %-22s %s\n%27s", p->key, p->doc ? p->doc : "", "");
    if (p->words) buf_str(out, p->words);
    else buf_str(out, type[p->type]);
    print_range(p, out);
    if (p->otherwise) buf_printf(out, "; default %s\n", p->otherwise);
    else buf_str(out, p->type == PARAM_INT || p->type == PARAM_FLOAT ? "; required\n" : "\n");
}

bool spec_text_modules(buf *out)
{
    static const char *const sections[] = {"model", "network", "tokenizer", "generate"};
    for (size_t i = 0; i < module_count; i++) {
        const module *m = module_list[i];
        buf_printf(out, "%s: %s\n", m->name, m->doc);
        if (m->n_params) buf_str(out, "  options\n");
        for (size_t k = 0; k < m->n_params; k++) print_param(&m->params[k], out);
        if (m->n_weights) buf_str(out, "  weights\n");
        for (size_t k = 0; k < m->n_weights; k++)
            buf_printf(out, "    %-22s %s %s\n", *m->weights[k].role ? m->weights[k].role : "(the slot itself)",
                       m->weights[k].shape, m->weights[k].doc);
        buf_byte(out, '\n');
    }
    buf_str(out, "activations\n");
#define X(id, name, doc) buf_printf(out, "    %-22s %s\n", name, doc);
    ACT_LIST(X)
#undef X
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        size_t n;
        const param *rows = spec_section_rows(sections[i], &n);
        buf_printf(out, "\n[%s]\n", sections[i]);
        for (size_t k = 0; k < n; k++) buf_printf(out, "    %-22s %s\n", rows[k].key, rows[k].doc);
    }
    return !out->bad;
}

int spec_text_derive(const char *model_path, buf *out, err *e)
{
    ckpt *c;
    int rc = model_weights(&c, model_path ? model_path : "builtin", e);
    if (rc) return rc;
    rc = spec_derive(c, out, e);
    ckpt_close(c);
    return rc;
}
