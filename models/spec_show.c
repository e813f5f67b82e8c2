/* spec_show.c - `spec show`: a model's spec with every value filled in, as INI text that loads again and gives the same
 * program.
 *
 * Names of [config] and options of slots are printed as numbers and words; those that differ between layers as lists
 * indexed by i. Classes of layers become lists too. Formulas and [tensors] stand as they are: they use only names of
 * [config]. So the text needs neither bases nor config.json. */
#include "models/spec_show.h"

#include "models/compile/module.h"
#include "models/compile/spec_unused.h"
#include "models/spec/spec_slot.h"
#include "models/spec/spec_keys.h"

#include <stdio.h>
#include <string.h>

typedef struct show {
    spec *s;
    config_eval *values;
    buf *out;
    buf *one; /* the value being printed */
    int layers;
    bool recipes; /* [tensors] is shown as it stands */
    err *e;
} show;

/* Gives the value of something at a layer. */
typedef int (*value_at_layer)(show *w, const void *what, int layer, value *out);

/* The text of a value: words of an option without quotes, an absent value as null. */
static bool print_one(show *w, const value *v, bool words)
{
    if (v->kind == VALUE_NONE) return buf_str(w->one, "null");
    return words && v->kind == VALUE_TEXT ? buf_str(w->one, v->text) : value_print(v, w->one);
}

/* Appends the text of a value that may depend on the layer: "64", or "[0, 11, 0][i] | 0" with the value outside layers
 * after the bar. *any: it has a text. */
static int print_value(show *w, value_at_layer get, const void *what, bool words, bool *any)
{
    buf all = {0}, one = {0}, first = {0}, outside = {0};
    bool same = true, printable = true, some = false, holes = false;
    value v = {0};
    w->one = &outside;
    if (get(w, what, OUTSIDE, &v)) v = (value){0}; /* a value that needs i has none outside layers */
    int rc = w->layers ? OK : w->e->code;
    bool fits = print_one(w, &v, words);
    some = fits && v.kind != VALUE_NONE && !w->layers;
    w->one = &one;
    if (!rc) *w->e = (err){0};
    for (int i = 0; i < w->layers && !rc; i++) {
        rc = get(w, what, i, &v);
        one.n = 0;
        printable &= !rc && print_one(w, &v, words);
        some |= v.kind != VALUE_NONE;
        holes |= v.kind == VALUE_NONE;
        if (i == 0) buf_str(&first, buf_cstr(&one));
        same &= strcmp(buf_cstr(&one), buf_cstr(&first)) == 0;
        buf_printf(&all, "%s%s", i > 0 ? ", " : "[", buf_cstr(&one));
    }
    *any = !rc && printable && some;
    same &= !w->layers || strcmp(buf_cstr(&first), buf_cstr(&outside)) == 0 || strcmp(buf_cstr(&outside), "null") == 0;
    if (*any && same) buf_str(w->out, buf_cstr(w->layers ? &first : &outside));
    const char *other = fits ? buf_cstr(&outside) : "null";
    if (*any && !same && holes) buf_printf(w->out, "(i | -1) < 0 ? %s : %s][i]", other, buf_cstr(&all));
    else if (*any && !same) buf_printf(w->out, "%s][i] | %s", buf_cstr(&all), other);
    if (!rc && (all.bad || one.bad || first.bad || outside.bad)) rc = err_memory(w->e, NULL);
    buf_free(&all);
    buf_free(&one);
    buf_free(&first);
    buf_free(&outside);
    return rc;
}

/* "key = value", or nothing when the value has no text (absent, an object, or a list that changes with the layer). */
static int print_line(show *w, const char *key, value_at_layer get, const void *what)
{
    size_t start = w->out->n;
    bool any;
    buf_printf(w->out, "%s = ", key);
    int rc = print_value(w, get, what, false, &any);
    if (any) buf_byte(w->out, '\n');
    else w->out->n = start;
    return rc;
}

/* ---- [config] */

static int get_name(show *w, const void *what, int layer, value *out)
{
    const spec_row *r = what;
    return config_name(w->values, r->key, layer, out, w->e);
}

static int show_config(show *w)
{
    buf_str(w->out, "\n[config]\n");
    for (size_t i = 0; i < w->s->n; i++) {
        const spec_row *r = &w->s->rows[i];
        if (strcmp(r->section, "config") != 0 || !spec_name_stays(w->s, r->key, w->recipes)) continue;
        int rc = print_line(w, r->key, get_name, r);
        if (rc) return rc;
    }
    return OK;
}

/* ---- [network] and layers */

typedef struct shown_option {
    const slot_option *o;
    const char *words;
} shown_option;

static int get_option(show *w, const void *what, int layer, value *out)
{
    const shown_option *o = what;
    char where[300];
    snprintf(where, sizeof where, "%s: %s", o->o->where, o->o->key);
    return config_value(w->values, o->o->value, layer, o->words, where, out, w->e);
}

/* The module of a slot as one section declares it: its own, or the one it refines. */
static const module *module_of(show *w, const spec_slot *d)
{
    char kind[64], enc_kind[70];
    const bool enc = strncmp(d->name, "enc.", 4) == 0;
    const char *name = d->name + (enc ? 4 : 0);
    snprintf(kind, sizeof kind, "%.*s", (int)strcspn(name, "."), name);
    snprintf(enc_kind, sizeof enc_kind, "enc.%s", kind);
    const spec_slot *up = d->module ? d : spec_slot_find(w->s, "network", d->name);
    if (enc && (!up || !up->module)) up = spec_slot_find(w->s, "network", enc_kind);
    if (!up || !up->module) up = spec_slot_find(w->s, "network", name);
    if (!up || !up->module) up = spec_slot_find(w->s, "network", kind);
    return module_find(kind, up ? up->module : NULL);
}

static int show_slot(show *w, const spec_slot *d)
{
    const module *m = module_of(w, d);
    bool first = true;
    buf_printf(w->out, "%s = %s", d->name, d->module ? d->module : "");
    first = !d->module;
    for (size_t i = 0; i < d->n && m; i++) {
        const param *row = param_find(m->params, m->n_params, d->options[i].key);
        shown_option o = {&d->options[i], row && row->type == PARAM_WORD ? row->words : NULL};
        size_t start = w->out->n;
        bool any;
        buf_printf(w->out, "%s%s = ", first ? "" : ", ", d->options[i].key);
        int rc = print_value(w, get_option, &o, o.words != NULL, &any);
        if (rc) return rc;
        if (!any) w->out->n = start;
        else first = false;
    }
    buf_byte(w->out, '\n');
    return OK;
}

static int show_slots(show *w, const char *section)
{
    for (size_t i = 0; i < w->s->n_slot; i++) {
        const spec_slot *d = &w->s->slots[i];
        int rc = d->used && strcmp(d->section, section) == 0 ? show_slot(w, d) : OK;
        if (rc) return rc;
    }
    return OK;
}

static void show_network_keys(show *w)
{
    size_t n;
    const param *rows = spec_section_rows("network", &n);
    buf_str(w->out, "\n[network]\n");
    for (size_t i = 0; i < n; i++) {
        const char *text = spec_text(w->s, "network", rows[i].key);
        bool number = strcmp(rows[i].key, "layers") == 0 || strcmp(rows[i].key, "enc_layers") == 0 ||
                      strcmp(rows[i].key, "dim") == 0 || strcmp(rows[i].key, "positions") == 0;
        if (text && !number) buf_printf(w->out, "%s = %s\n", rows[i].key, text);
    }
}

static int get_number(show *w, const void *what, int layer, value *out)
{
    (void)layer;
    const spec_row *r = what;
    return config_value(w->values, r->value, OUTSIDE, NULL, r->where, out, w->e);
}

static int show_network(show *w)
{
    static const char *const numbers[] = {"layers", "enc_layers", "dim", "positions"};
    show_network_keys(w);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const spec_row *r = spec_find(w->s, "network", numbers[i]);
        int rc = r ? print_line(w, numbers[i], get_number, r) : OK;
        if (rc) return rc;
    }
    return show_slots(w, "network");
}

/* The names of a class are printed in [config], layer by layer; its slots and its block remain. */
static int show_class(show *w, size_t k)
{
    const spec_class *c = &w->s->classes[k];
    const char *block = spec_text(w->s, c->section, "block");
    bool empty = !block;
    for (size_t i = 0; i < w->s->n_slot; i++) empty &= strcmp(w->s->slots[i].section, c->section) != 0;
    if (empty) return OK;
    buf_printf(w->out, "\n[%s]\nwhere = [", c->section);
    for (int i = 0; i < w->layers; i++) buf_printf(w->out, "%s%d", i ? ", " : "", config_in_class(w->values, k, i));
    buf_str(w->out, "][i]\n");
    if (block) buf_printf(w->out, "block = %s\n", block);
    return show_slots(w, c->section);
}

/* ---- the other sections */

static void show_plain(show *w, const char *section)
{
    bool any = false;
    for (size_t i = 0; i < w->s->n; i++) {
        const spec_row *r = &w->s->rows[i];
        if (strcmp(r->section, section) != 0) continue;
        bool fixed = strcmp(r->key, "prefix") == 0 || strcmp(r->key, "ignore") == 0;
        if (strcmp(section, "tensors") == 0 && !r->used && !fixed) continue; /* no slot asked for it */
        if (!any) buf_printf(w->out, "\n[%s]\n", section);
        any = true;
        bool path = strcmp(section, "tokenizer") == 0 && strcmp(r->key, "path") == 0;
        const char *text = r->text;
        if (path && spec_path(w->s, section, r->key, &text, w->e)) return;
        buf_printf(w->out, "%s = %s\n", r->key, text);
    }
}

static int show_generate(show *w)
{
    static const char *const ids[] = {"bos", "eos", "start", "wrap", NULL};
    buf_str(w->out, "\n[generate]\n");
    for (size_t i = 0; ids[i]; i++) {
        const spec_row *r;
        int rc = spec_value(w->s, "generate", ids[i], &r, w->e);
        if (!rc && r) rc = print_line(w, ids[i], get_number, r);
        if (rc) return rc;
    }
    for (size_t i = 0; i < w->s->n; i++) {
        const spec_row *r = &w->s->rows[i];
        bool shown = false;
        for (size_t k = 0; ids[k]; k++) shown |= strcmp(r->key, ids[k]) == 0;
        if (strcmp(r->section, "generate") != 0 || shown) continue;
        buf_printf(w->out, "%s = %s\n", r->key, r->text);
    }
    return OK;
}

int spec_show(spec *s, config_eval *values, const char *arch, const char *path, const char *tensors, buf *out, err *e)
{
    static const char *const skip[] = {"path", "arch", "config", "base", "unread", "root", "absent", "quantized", NULL};
    err own = {0};
    show w = {.s = s, .values = values, .out = out, .layers = config_layers(values), .recipes = !tensors, .e = &own};
    bool whole = arch && !tensors;
    if (arch) buf_printf(out, "[model]\narch = %s\n", arch);
    if (path) buf_printf(out, "path = %s\n", path);
    for (size_t i = 0; i < s->n && arch; i++) {
        bool shown = strcmp(s->rows[i].section, "model") == 0;
        for (size_t k = 0; skip[k]; k++) shown &= strcmp(s->rows[i].key, skip[k]) != 0;
        shown &= !tensors || strcmp(s->rows[i].key, "format") != 0;
        if (shown) buf_printf(out, "%s = %s\n", s->rows[i].key, s->rows[i].text);
    }
    int rc = show_config(&w);
    if (!rc) rc = show_network(&w);
    for (size_t k = 0; k < s->n_class && !rc; k++) rc = show_class(&w, k);
    if (!rc) {
        if (tensors) buf_printf(out, "\n[tensors]\n%s", tensors);
        else show_plain(&w, "tensors");
        if (whole) show_plain(&w, "tokenizer");
        else if (spec_text(s, "tokenizer", "pre"))
            buf_printf(out, "\n[tokenizer]\npre = %s\n", spec_text(s, "tokenizer", "pre"));
        rc = show_generate(&w);
    }
    if (!rc && whole) {
        show_plain(&w, "runtime");
        show_plain(&w, "serve");
        show_plain(&w, "chat");
    }
    if (!rc && out->bad) rc = err_memory(&own, NULL);
    if (!rc) rc = own.code;
    return rc ? err_set(e, rc, "%s", own.msg) : OK;
}
