/* formula.c - a formula becomes ops: formula_build walks the statements, call_module runs the module of a slot.
 *
 * Values are tensors or plain numbers; numbers fold at load. Names mean variables first, then slots that take no
 * activation (`token`), then names of [config]. Conditions are numbers: only the branch that holds is built. */
#include "models/compile/formula.h"

#include "base/mem.h"
#include "models/compile/option.h"
#include "models/spec/spec_slot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VARS_MAX = 64, ARGS_MAX = 4 };

typedef struct term {
    ref t; /* 0: a number */
    double number;
} term;

typedef struct walk {
    builder *b;
    const char *where;
    struct {
        const char *name;
        ref t;
    } var[VARS_MAX];
    int n_var;
    const char *target; /* variable of the statement being built; names the results */
    int part;           /* activations made so far: their number keeps names unique in a layer */
} walk;

static bool visit_expr(walk *w, const expr *x, term *out);

static bool refuse_formula(walk *w, const char *what, const char *detail)
{
    err_set(w->b->e, ERR_SPEC, "%s: %s%s", w->where, what, detail);
    return false;
}

/* ---- slots */

static bool is_slot(const builder *b, const char *path)
{
    char kind[64];
    if (b->encoding) {
        char inner[80];
        snprintf(inner, sizeof inner, "enc.%.70s", path);
        if (spec_slot_find(b->s, "network", inner)) return true;
    }
    size_t n = strcspn(path, ".");
    if (n >= sizeof kind) return false;
    memcpy(kind, path, n);
    kind[n] = 0;
    return spec_slot_find(b->s, "network", path) || spec_slot_find(b->s, "network", kind) || module_find(kind, NULL);
}

static void add_lines(option_slot *o, spec *s, const char *section, const char *name)
{
    const spec_slot *d = o->n < (int)(sizeof o->from / sizeof *o->from) ? spec_slot_use(s, section, name) : NULL;
    if (d) o->from[o->n++] = d;
}

/* Finds the declarations of a slot at a layer and its module. ERR_SPEC when none names a module that exists. */
static int find_slot(option_slot *out, spec *s, config_eval *values, arena *mem, const char *path, int layer,
                     const char *caller, err *e)
{
    char kind[64], enc_kind[70];
    const bool enc = strncmp(path, "enc.", 4) == 0;
    const char *full = path;
    if (enc) path += 4;
    size_t n = strcspn(path, ".");
    if (n >= sizeof kind) return err_set(e, ERR_SPEC, "%s: the name '%.80s' is too long", caller, path);
    memcpy(kind, path, n);
    kind[n] = 0;
    snprintf(enc_kind, sizeof enc_kind, "enc.%s", kind);
    *out = (option_slot){.where = caller};
    for (size_t k = s->n_class; k-- > 0;)
        if (config_in_class(values, k, layer)) {
            add_lines(out, s, s->classes[k].section, path);
            if (path[n]) add_lines(out, s, s->classes[k].section, kind);
        }
    if (enc) add_lines(out, s, "network", full);
    if (enc && path[n]) add_lines(out, s, "network", enc_kind);
    add_lines(out, s, "network", path);
    if (path[n]) add_lines(out, s, "network", kind);

    const spec_slot *names = NULL;
    int kept = 0;
    for (int i = 0; i < out->n; i++) { /* lines that name another module than the first are dropped */
        if (!names && out->from[i]->module) names = out->from[i];
        bool same = !out->from[i]->module || strcmp(out->from[i]->module, names->module) == 0;
        if (same) out->from[kept++] = out->from[i];
    }
    out->n = kept;
    out->mod = module_find(kind, names ? names->module : NULL);
    const char *line = names ? names->where : out->n ? out->from[0]->where : s->file;
    if (!out->mod && names)
        return err_set(e, ERR_SPEC, "%s: %s: there is no module '%s' (inferflow spec modules lists them)", line, full,
                       names->module);
    if (!out->mod)
        return err_set(e, ERR_SPEC, "%s: '%s' names no module: [network] needs a line '%s = ...'", caller, full, kind);
    out->where = arena_printf(mem, "%s: %s", line, full);
    return out->where ? OK : err_memory(e, "a spec");
}

/* The name in the spec of a slot that a formula calls; NULL when memory is short. */
static const char *path_of(builder *b, const char *name)
{
    const char *path = b->encoding ? arena_printf(&b->prog->mem, "enc.%s", name) : name;
    if (!path) err_memory(b->e, "the program");
    return path;
}

/* Marks the [tensors] lines of all roles of a module as used, also those that its options do not need. */
static void claim_lines(builder *b, const char *path, const module *m)
{
    const bool enc = strncmp(path, "enc.", 4) == 0;
    for (size_t i = 0; i < m->n_weights; i++) {
        const char *role = m->weights[i].role;
        for (int form = 0; form < 4; form++) {
            char key[200];
            snprintf(key, sizeof key, "%s%s%s%s%s%s", enc ? "enc." : "", form & 1 ? "{i}." : "", path + (enc ? 4 : 0),
                     *role ? "." : "", role, form & 2 ? ".bias" : "");
            spec_use(b->s, "tensors", key);
        }
    }
}

static ref call_module(builder *b, const char *path, const ref *in, int n_in, const char *where)
{
    option_slot slot;
    if (!(path = path_of(b, path))) return 0;
    if (find_slot(&slot, b->s, b->values, &b->prog->mem, path, b->layer, where, b->e)) return 0;
    claim_lines(b, path, slot.mod);
    if (n_in < slot.mod->args || n_in > slot.mod->args + slot.mod->more) {
        err_set(b->e, ERR_SPEC, "%s: %s (%s) takes %d activation%s, got %d", where, path, slot.mod->name,
                slot.mod->args, slot.mod->args == 1 ? "" : "s", n_in);
        return 0;
    }
    void *options = mem_zero(1, slot.mod->options_size ? slot.mod->options_size : 1);
    if (!options) return err_memory(b->e, "the program"), 0;
    call c = {.mod = slot.mod, .path = path, .where = slot.where, .slot = &slot, .options = options};
    for (int i = 0; i < n_in; i++) c.in[i] = in[i];
    ref out = option_fill(&slot, b->values, path, b->layer, options, b->e) == OK ? slot.mod->emit(b, &c) : 0;
    mem_free(options);
    return out;
}

/* ---- the walk */

static ref var_of(const walk *w, const char *name)
{
    for (int i = w->n_var; i-- > 0;)
        if (strcmp(w->var[i].name, name) == 0) return w->var[i].t;
    return 0;
}

/* Whether any part of x is an activation. */
static bool has_tensor(const walk *w, const expr *x)
{
    if (x->kind == EXPR_NAME &&
        (var_of(w, x->text) || (!config_knows(w->b->values, x->text) && is_slot(w->b, x->text))))
        return true;
    if (x->kind == EXPR_CALL && !config_is_function(x->text)) return true;
    for (size_t i = 0; i < x->n_arg; i++)
        if (has_tensor(w, x->arg[i])) return true;
    return false;
}

static bool eval_number(walk *w, const expr *x, double *out)
{
    value v;
    const char *unknown = config_unknown_name(w->b->values, x);
    if (unknown) return refuse_formula(w, "neither a variable, nor a slot, nor a name of [config]: ", unknown);
    if (config_value(w->b->values, x, w->b->layer, NULL, w->where, &v, w->b->e)) return false;
    if (v.kind != VALUE_NUMBER && v.kind != VALUE_BOOL)
        return refuse_formula(w, "a number in the formula has no value", "");
    *out = v.number;
    return true;
}

/* "1", "2", …: tells apart the activations of one formula. */
static const char *part_name(walk *w, char *text, size_t cap)
{
    snprintf(text, cap, "%d", ++w->part);
    return text;
}

static bool done(term *out, ref t)
{
    *out = (term){.t = t};
    return t != 0;
}

static bool visit_columns(walk *w, const expr *x, term *out)
{
    char part[16];
    term a;
    double from, n;
    if (x->n_arg != 3) return refuse_formula(w, "columns takes an activation, the first column and their number", "");
    if (!visit_expr(w, x->arg[0], &a) || !eval_number(w, x->arg[1], &from) || !eval_number(w, x->arg[2], &n))
        return false;
    if (!a.t) return refuse_formula(w, "columns takes an activation, the first column and their number", "");
    const double width = (double)builder_width(w->b, a.t);
    if (!(from >= 0 && n >= 1 && from + n <= width) || from != floor(from) || n != floor(n)) {
        err_set(w->b->e, ERR_SPEC, "%s: columns %g to %g of %g", w->where, from, from + n - 1, width);
        return false;
    }
    return done(out, builder_columns(w->b, w->target, part_name(w, part, sizeof part), a.t, (int64_t)from, (int64_t)n));
}

/* l2(x), l2(x, least): rows of length 1; size(x): the root mean square of a row, for each of its elements. */
static bool visit_length(walk *w, const expr *x, term *out)
{
    char part[16];
    term a;
    double least = 1e-12;
    const bool l2 = strcmp(x->text, "l2") == 0;
    if (x->n_arg < 1 || x->n_arg > (l2 ? 2 : 1))
        return refuse_formula(w, "too many or too few arguments for ", x->text);
    if (!visit_expr(w, x->arg[0], &a) || (x->n_arg == 2 && !eval_number(w, x->arg[1], &least))) return false;
    if (!a.t) return refuse_formula(w, "a number is no activation: argument of ", x->text);
    part_name(w, part, sizeof part);
    return done(out, l2 ? builder_l2(w->b, w->target, part, a.t, least)
                        : builder_row(w->b, w->target, part, a.t, NORM_SIZE, 0));
}

static bool visit_call(walk *w, const expr *x, term *out)
{
    char part[16];
    ref in[ARGS_MAX];
    bool softcap = strcmp(x->text, "softcap") == 0;
    act_kind fn = builder_act_kind(x->text);
    if (x->n_arg > ARGS_MAX) return refuse_formula(w, "too many arguments for ", x->text);
    if (softcap && !is_slot(w->b, x->text)) {
        term a;
        double cap;
        if (x->n_arg != 2) return refuse_formula(w, "softcap takes an activation and a number", "");
        if (!visit_expr(w, x->arg[0], &a) || !eval_number(w, x->arg[1], &cap)) return false;
        if (!a.t) return refuse_formula(w, "softcap takes an activation and a number", "");
        return done(out, builder_softcap(w->b, w->target, part_name(w, part, sizeof part), a.t, cap));
    }
    if ((strcmp(x->text, "l2") == 0 || strcmp(x->text, "size") == 0) && !is_slot(w->b, x->text))
        return visit_length(w, x, out);
    if (strcmp(x->text, "columns") == 0 && !is_slot(w->b, x->text)) return visit_columns(w, x, out);
    for (size_t i = 0; i < x->n_arg; i++) {
        term a;
        if (!visit_expr(w, x->arg[i], &a)) return false;
        if (!a.t) return refuse_formula(w, "a number is no activation: argument of ", x->text);
        in[i] = a.t;
    }
    if (fn != ACT_NONE && x->n_arg == 1 && !is_slot(w->b, x->text))
        return done(out, builder_act_fn(w->b, w->target, part_name(w, part, sizeof part), in[0], fn));
    if (!is_slot(w->b, x->text)) return refuse_formula(w, "there is no slot, activation or function ", x->text);
    return done(out, call_module(w->b, x->text, in, (int)x->n_arg, w->where));
}

static bool visit_binary(walk *w, const expr *x, term *out)
{
    char part[16];
    term a, c;
    builder *b = w->b;
    if (!visit_expr(w, x->arg[0], &a) || !visit_expr(w, x->arg[1], &c)) return false;
    if (x->op == '+' && a.t && c.t)
        return done(out, builder_add(b, w->target, part_name(w, part, sizeof part), a.t, c.t));
    if (x->op == '*' && a.t && c.t)
        return done(out, builder_mul(b, w->target, part_name(w, part, sizeof part), a.t, c.t));
    if (x->op == '*')
        return done(out, builder_scale(b, w->target, part_name(w, part, sizeof part), a.t ? a.t : c.t,
                                       a.t ? c.number : a.number));
    if (x->op == '/' && a.t && !c.t) {
        if (c.number == 0) return refuse_formula(w, "divided by zero", "");
        return done(out, builder_scale(b, w->target, part_name(w, part, sizeof part), a.t, 1 / c.number));
    }
    return refuse_formula(w, "activations are added, multiplied with each other, and multiplied or divided by numbers",
                          "");
}

/* Marks the slots of a branch that is not built, so that their lines are not reported as unused. */
static bool claim_branch(walk *w, const expr *x)
{
    bool may_be = (x->kind == EXPR_NAME || x->kind == EXPR_CALL) && !var_of(w, x->text) && has_tensor(w, x);
    if (may_be && is_slot(w->b, x->text)) {
        option_slot slot;
        builder *b = w->b;
        const char *path = path_of(b, x->text);
        if (!path || find_slot(&slot, b->s, b->values, &b->prog->mem, path, b->layer, w->where, b->e)) return false;
        claim_lines(b, path, slot.mod);
    }
    for (size_t i = 0; i < x->n_arg; i++)
        if (!claim_branch(w, x->arg[i])) return false;
    return true;
}

/* Whether x asks what the model's files have, which a resolved spec does not know. */
static bool asks_file(const expr *x)
{
    static const char *const names[] = {"has", "given", "rows"};
    for (size_t i = 0; i < 3; i++)
        if (x->kind == EXPR_CALL && strcmp(x->text, names[i]) == 0) return true;
    for (size_t i = 0; i < x->n_arg; i++)
        if (asks_file(x->arg[i])) return true;
    return false;
}

static bool visit_expr(walk *w, const expr *x, term *out)
{
    *out = (term){0};
    if (!has_tensor(w, x)) return eval_number(w, x, &out->number);
    switch (x->kind) {
    case EXPR_NAME: {
        ref t = var_of(w, x->text);
        return done(out, t ? t : call_module(w->b, x->text, NULL, 0, w->where));
    }
    case EXPR_CALL: return visit_call(w, x, out);
    case EXPR_BINARY: return visit_binary(w, x, out);
    case EXPR_CHOOSE: {
        double yes;
        if (asks_file(x->arg[0]))
            return refuse_formula(w, "has(), given() and rows() belong in [config]: use a name that is defined there",
                                  "");
        if (has_tensor(w, x->arg[0])) return refuse_formula(w, "the condition of '?' must be a number", "");
        if (!eval_number(w, x->arg[0], &yes)) return false;
        return claim_branch(w, x->arg[yes != 0 ? 2 : 1]) && visit_expr(w, x->arg[yes != 0 ? 1 : 2], out);
    }
    default: return refuse_formula(w, "this does not work with activations", "");
    }
}

static bool assign_name(walk *w, const char *name, ref t)
{
    for (int i = 0; i < w->n_var; i++)
        if (strcmp(w->var[i].name, name) == 0) return w->var[i].t = t, true;
    if (w->n_var == VARS_MAX) return refuse_formula(w, "too many variables: ", name);
    w->var[w->n_var].name = name;
    w->var[w->n_var++].t = t;
    return true;
}

/* Variables that go on from layer to layer: all that `embed` sets, and what blocks make of them. */
static bool carry(walk *w, bool embeds)
{
    builder *b = w->b;
    for (int i = 0; i < w->n_var; i++) {
        int k = 0;
        while (k < b->n_carried && strcmp(b->carried[k].name, w->var[i].name) != 0) k++;
        if (k < b->n_carried) b->carried[k].t = w->var[i].t;
        if (k < b->n_carried || !embeds || strcmp(w->var[i].name, "x") == 0) continue;
        if (k == CARRIED_MAX) return refuse_formula(w, "too many variables: ", w->var[i].name);
        b->carried[k].name = arena_str(&b->prog->mem, w->var[i].name);
        b->carried[k].t = w->var[i].t;
        if (!b->carried[k].name) return err_memory(b->e, "the program"), false;
        b->n_carried++;
    }
    return true;
}

ref formula_build(builder *b, const char *text, const char *where, ref x, const char *result)
{
    arena mem = {0};
    walk w = {.b = b, .where = where};
    formula f;
    const expr *single;
    statement alone = {result, NULL};
    bool ok = true, embeds = strcmp(result, "embed") == 0 && formula_has_statements(text);
    if (embeds) result = "x";
    if (x) assign_name(&w, "x", x);
    for (int i = 0; i < b->n_carried && !b->encoding && strcmp(result, "x") == 0; i++)
        assign_name(&w, b->carried[i].name, b->carried[i].t);
    /* `final = norm.f(x)`: a lone expression is the value itself; a block is statements. */
    if (strcmp(result, "x") == 0) {
        ok = formula_parse(&f, &mem, text, where, b->e) == OK;
    } else {
        ok = expr_parse(&single, &mem, text, where, b->e) == OK;
        alone.value = ok ? single : NULL;
        f = (formula){&alone, 1};
    }
    for (size_t i = 0; ok && i < f.n; i++) {
        term t;
        w.target = f.at[i].name;
        ok = visit_expr(&w, f.at[i].value, &t);
        if (!ok || (alone.value && !t.t && t.number == 0)) break;
        ok = (t.t || refuse_formula(&w, "the value is a number, not an activation: ", w.target)) &&
             assign_name(&w, f.at[i].name, t.t);
    }
    if (ok && !alone.value && !b->encoding) ok = carry(&w, embeds);
    ref out = ok ? var_of(&w, result) : 0;
    if (ok && !out && !alone.value) refuse_formula(&w, "nothing is assigned to ", result);
    arena_free(&mem);
    return out;
}
