/* spec_unused.c - keys of a spec that nothing uses: names of [config], slots and lines of [tensors] that no formula,
 * expression or option mentions. Most are misspelt, so each message has the nearest word that would be used.
 *
 * Of a base only the names of [config] in a file of the user are judged: a built-in one may hold more than one of its
 * children needs. Mentions are looked for in the
 * texts, not in what was evaluated: the branch of a `?` that was not taken counts. */
#include "models/compile/spec_unused.h"

#include "models/compile/module.h"
#include "models/spec/spec_keys.h"
#include "models/spec/spec_slot.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool word_byte(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.'; }

/* Whether the word occurs in the text; a word may go on behind a dot when `head` is set ("norm" in "norm.a(x)"). */
static bool text_mentions(const char *text, const char *word, bool head)
{
    size_t n = strlen(word);
    for (const char *p = text; (p = strstr(p, word)); p++) {
        bool starts = p == text || !word_byte(p[-1]);
        if (starts && (!word_byte(p[n]) || (head && p[n] == '.'))) return true;
    }
    return false;
}

/* "enc.norm.a": norm.a in a formula of the encoder. */
static bool called(const spec *s, const char *path, bool head)
{
    static const char *const by_default[] = {"token", "head"}; /* formulas that need not be written */
    const bool enc = strncmp(path, "enc.", 4) == 0;
    if (enc) path += 4;
    for (size_t i = 0; i < sizeof by_default / sizeof *by_default; i++)
        if (strcmp(path, by_default[i]) == 0) return true;
    for (size_t i = 0; i < s->n; i++)
        if (spec_is_formula(s->rows[i].key) && (!enc || strncmp(s->rows[i].key, "enc.", 4) == 0) &&
            text_mentions(s->rows[i].text, path, head))
            return true;
    return false;
}

/* ---- names of [config] */

bool spec_name_stays(const spec *s, const char *name, bool recipes)
{
    static const char *const own[] = {"layers", "enc_layers", "dim", "positions", "causal"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(name, own[i]) == 0) return true;
    for (size_t i = 0; i < s->n; i++)
        if ((spec_is_formula(s->rows[i].key) || (recipes && strcmp(s->rows[i].section, "tensors") == 0)) &&
            text_mentions(s->rows[i].text, name, true))
            return true;
    for (size_t i = 0; i < module_count; i++)
        if (param_find(module_list[i]->params, module_list[i]->n_params, name)) return true;
    return false;
}

static bool name_is_asked(const spec *s, const char *name)
{
    if (spec_name_stays(s, name, true)) return true;
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->rows[i].key, name) != 0 && text_mentions(s->rows[i].text, name, true)) return true;
    for (size_t i = 0; i < s->n_slot; i++)
        for (size_t k = 0; k < s->slots[i].n; k++)
            if (text_mentions(s->slots[i].options[k].text, name, true)) return true;
    return false;
}

static int unheard_name(const spec_row *r, err *e)
{
    const char *near = NULL;
    for (size_t k = 0; k < module_count && !near; k++)
        near = param_nearest(module_list[k]->params, module_list[k]->n_params, r->key);
    return err_set(e, ERR_SPEC, "%s: [config] nothing uses the name '%s'%s%s%s", r->where, r->key,
                   near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* ---- lines of [tensors] */

/* Whether some module has the role ("q", "q.bias", "bias", ""). */
static bool is_role(const char *role)
{
    size_t n = strlen(role);
    if (n >= 5 && strcmp(role + n - 5, ".bias") == 0) n -= 5;
    else if (strcmp(role, "bias") == 0) n = 0;
    for (size_t i = 0; i < module_count; i++)
        for (size_t k = 0; k < module_list[i]->n_weights; k++) {
            const char *known = module_list[i]->weights[k].role;
            if (strlen(known) == n && memcmp(known, role, n) == 0) return true;
        }
    return false;
}

/* "attn.q", "norm.a.bias", "rope_freqs": some prefix is called in a formula and the rest is a role. */
static bool line_is_asked(const spec *s, const char *key)
{
    char path[160];
    if (strcmp(key, "prefix") == 0 || strcmp(key, "ignore") == 0) return true;
    const char *enc = strncmp(key, "enc.", 4) == 0 ? "enc." : "";
    key += strlen(enc);
    if (strncmp(key, "{i}.", 4) == 0) key += 4;
    for (size_t i = 0; i < module_count; i++) {
        const param *p = param_find(module_list[i]->params, module_list[i]->n_params, key);
        if (p && p->words && strcmp(p->words, MODULE_LIST_OPTION) == 0) return true;
    }
    snprintf(path, sizeof path, "%s%s", enc, key);
    for (;;) {
        size_t n = strlen(path) - strlen(enc);
        if (called(s, path, false) && is_role(key[n] ? key + n + 1 : "")) return true;
        char *dot = strrchr(path + strlen(enc), '.');
        if (!dot) return false;
        *dot = 0;
    }
}

static int unheard_line(const spec *s, const spec_row *r, err *e)
{
    const char *near = NULL;
    int best = 4;
    for (size_t k = 0; k < s->n; k++) {
        const spec_row *q = &s->rows[k];
        if (q == r || strcmp(q->section, "tensors") != 0 || !line_is_asked(s, q->key)) continue;
        int distance = edit_distance(r->key, q->key);
        if (distance < best) near = q->key, best = distance;
    }
    return err_set(e, ERR_SPEC, "%s: [tensors] no slot asks for '%s'%s%s%s", r->where, r->key,
                   near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* ---- slots */

static int unheard_slot(const spec *s, const spec_slot *d, err *e)
{
    const char *near = NULL;
    int best = 3;
    for (size_t k = 0; k < s->n_slot; k++) {
        int distance = called(s, s->slots[k].name, true) ? edit_distance(d->name, s->slots[k].name) : 99;
        if (distance < best) near = s->slots[k].name, best = distance;
    }
    return err_set(e, ERR_SPEC, "%s: [%s] no formula uses '%s'%s%s%s", d->where, d->section, d->name,
                   near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* The module of a slot line: its own, that of the line it refines, or the only one of its kind; NULL: none is known. */
static const module *module_of(const spec *s, const spec_slot *d, char kind[64])
{
    const char *name = strncmp(d->name, "enc.", 4) == 0 ? d->name + 4 : d->name;
    snprintf(kind, 64, "%.*s", (int)strcspn(name, "."), name);
    const char *const paths[] = {d->name, name, kind};
    const char *word = d->module;
    for (size_t i = 0; i < 3 && !word; i++) {
        const spec_slot *outer = spec_slot_find(s, "network", paths[i]);
        word = outer ? outer->module : NULL;
    }
    return module_find(kind, word);
}

/* Whether some module of a kind has the option: which module a layer has, only building knows. */
static bool kind_has(const char *kind, const char *option)
{
    const size_t n = strlen(kind);
    for (size_t i = 0; i < module_count; i++)
        if (strncmp(module_list[i]->name, kind, n) == 0 && module_list[i]->name[n] == '.' &&
            param_find(module_list[i]->params, module_list[i]->n_params, option))
            return true;
    return false;
}

static int check_options(const spec *s, const spec_slot *d, err *e)
{
    char kind[64];
    int rc = OK;
    const module *m = module_of(s, d, kind);
    if (!m && d->module)
        rc = err_set(e, ERR_SPEC, "%s: %s: there is no module '%s' (inferflow spec modules lists them)", d->where,
                     d->name, d->module);
    for (size_t i = 0; i < d->n && m && !rc; i++) {
        const slot_option *o = &d->options[i];
        if (param_find(m->params, m->n_params, o->key) || kind_has(kind, o->key)) continue;
        const char *near = param_nearest(m->params, m->n_params, o->key);
        rc = err_set(e, ERR_SPEC, "%s: %s: %s has no option '%s'%s%s%s", o->where, d->name, m->name, o->key,
                     near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
        rc = mistake_noted(s->noted, rc, e);
    }
    return mistake_noted(s->noted, rc, e);
}

static bool is_layers_encoder(const spec_slot *d)
{
    return strncmp(d->section, "layer ", 6) == 0 && strncmp(d->name, "enc.", 4) == 0;
}

int spec_check_unused(const spec *s, err *e)
{
    int rc = OK;
    for (size_t i = 0; i < s->n_slot && !rc; i++) {
        const spec_slot *d = &s->slots[i];
        if (!d->own) continue;
        if (is_layers_encoder(d))
            rc = mistake_noted(s->noted,
                               err_set(e, ERR_SPEC,
                                       "%s: [%s] %s: classes of layers are the decoder's; an encoder's layers "
                                       "are alike, as [network] says",
                                       d->where, d->section, d->name),
                               e);
        else rc = called(s, d->name, true) ? check_options(s, d, e) : mistake_noted(s->noted, unheard_slot(s, d, e), e);
    }
    for (size_t i = 0; i < s->n && !rc; i++) {
        const spec_row *r = &s->rows[i];
        if (strcmp(r->section, "config") == 0 && (!r->depth || r->users) && !name_is_asked(s, r->key))
            rc = unheard_name(r, e);
        if (strcmp(r->section, "tensors") == 0 && !r->depth && !line_is_asked(s, r->key)) rc = unheard_line(s, r, e);
        rc = mistake_noted(s->noted, rc, e);
    }
    return rc;
}
