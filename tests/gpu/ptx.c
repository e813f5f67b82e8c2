/* ptx.c - a PTX text from its .version to its end: variables, declarations and bodies of functions. Debugging
 * sections are passed over. */
#include "tests/gpu/ptx_body.h"
#include "tests/gpu/ptx_vars.h"

#include <stdlib.h>
#include <string.h>

static void read_params(ptx_cursor *c, ptx_function *f, ptx_variable **list, int *n)
{
    ptx_need(c, '(');
    while (!ptx_take(c, ')')) {
        if (!ptx_take_word(c, ".param")) ptx_stop(c, "parameters in registers are not known");
        ptx_variable *v = ptx_grow(list, n, sizeof **list);
        v->space = SPACE_PARAM;
        v->scope = -1;
        ptx_variable_read(c, v);
        f->param_bytes = (f->param_bytes + v->align - 1) / v->align * v->align;
        v->at = f->param_bytes;
        f->param_bytes += v->bytes;
        ptx_take(c, ',');
    }
}

/* What stands between the parameters and the body. */
static void read_attributes(ptx_cursor *c, ptx_function *f)
{
    while (ptx_peek(c) == '.') {
        const char *word = ptx_word(c, false);
        if (!strcmp(word, ".noreturn")) continue;
        if (strcmp(word, ".maxntid") && strcmp(word, ".reqntid") && strcmp(word, ".minnctapersm") &&
            strcmp(word, ".maxnreg"))
            ptx_stop(c, "an attribute of a function that is not known");
        int64_t all = 1;
        do {
            ptx_operand o = {0};
            ptx_number(c, &o);
            all *= o.value;
        } while (ptx_take(c, ','));
        if (!strcmp(word, ".maxntid") || !strcmp(word, ".reqntid")) f->max_threads = (int)all;
    }
}

static void read_function(ptx_cursor *c, ptx_module *m, bool entry)
{
    ptx_function *f = GROW(m->function, m->n_function);
    f->entry = entry;
    if (!entry && ptx_peek(c) == '(') read_params(c, f, &f->result, &f->n_result);
    f->name = ptx_keep(ptx_word(c, false));
    if (ptx_peek(c) == '(') read_params(c, f, &f->param, &f->n_param);
    f->local_bytes = entry ? 0 : f->param_bytes;
    read_attributes(c, f);
    if (ptx_take(c, ';')) return;
    f->body = true;
    if (entry && !m->whole) {
        ptx_peek(c);
        f->later = c->p;
        f->later_line = c->line;
        ptx_body_skip(c, f);
        return;
    }
    ptx_body_read(c, f);
}

void ptx_read_later(ptx_function *f)
{
    ptx_cursor c = {f->later, f->later_line};
    const int64_t shared_bytes = f->shared_bytes;
    f->later = NULL;
    f->shared_bytes = 0;
    ptx_body_read(&c, f);
    if (f->shared_bytes != shared_bytes) ptx_stop(&c, "shared variables were told wrongly, before");
}

static void read_variable(ptx_cursor *c, ptx_module *m, ptx_space space)
{
    do {
        ptx_variable *v = GROW(m->variable, m->n_variable);
        v->space = space;
        v->scope = -1;
        ptx_variable_read(c, v);
    } while (ptx_take(c, ','));
    ptx_need(c, ';');
}

static void read_section(ptx_cursor *c)
{
    while (ptx_peek(c) != '{') c->p++;
    ptx_skip_braces(c);
}

static void read_item(ptx_cursor *c, ptx_module *m)
{
    static const char *const linking[] = {".visible", ".extern", ".weak", ".common"};
    const char *word = ptx_word(c, false);
    for (size_t i = 0; i < sizeof linking / sizeof *linking; i++)
        if (!strcmp(word, linking[i])) return;
    if (!strcmp(word, ".entry")) read_function(c, m, true);
    else if (!strcmp(word, ".func")) read_function(c, m, false);
    else if (ptx_space_of(word) > 0) read_variable(c, m, (ptx_space)ptx_space_of(word));
    else if (!strcmp(word, ".section")) read_section(c);
    else if (!strcmp(word, ".file"))
        while (*c->p && *c->p != '\n') c->p++;
    else if (!strcmp(word, ".pragma"))
        while (!ptx_take(c, ';')) c->p++;
    else ptx_stop(c, "a directive that is not known, before");
}

ptx_module *ptx_parse(const char *text, bool whole)
{
    ptx_module *m = calloc(1, sizeof *m);
    if (!m) abort();
    m->text = ptx_keep(text);
    m->whole = whole;
    ptx_cursor c = {m->text, 1};
    ptx_operand o = {0};
    if (!ptx_take_word(&c, ".version")) ptx_stop(&c, "no PTX");
    ptx_number(&c, &o);
    if (!ptx_take_word(&c, ".target")) ptx_stop(&c, ".target is missing");
    const char *target = ptx_word(&c, false);
    m->target = atoi(strncmp(target, "sm_", 3) ? "0" : target + 3);
    while (ptx_take(&c, ',')) ptx_word(&c, false);
    if (!ptx_take_word(&c, ".address_size")) ptx_stop(&c, ".address_size is missing");
    ptx_number(&c, &o);
    if (o.value != 64) ptx_stop(&c, "addresses of 64 bits only, before");
    while (ptx_peek(&c)) read_item(&c, m);
    return m;
}

static void free_variables(ptx_variable *v, int n)
{
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < v[i].n_value; k++) free(v[i].value[k].symbol);
        free(v[i].value);
        free(v[i].name);
    }
    free(v);
}

static void free_operand(ptx_operand *o)
{
    for (int i = 0; i < o->n; i++) free_operand(&o->part[i]);
    free(o->part);
    free(o->name);
}

static void free_function(ptx_function *f)
{
    free_variables(f->param, f->n_param);
    free_variables(f->result, f->n_result);
    free_variables(f->variable, f->n_variable);
    for (int k = 0; k < f->n_line; k++) {
        for (int o = 0; o < f->lines[k].n; o++) free_operand(&f->lines[k].o[o]);
        free(f->lines[k].op);
    }
    for (int k = 0; k < f->n_label; k++) {
        for (int t = 0; t < f->label[k].n_target; t++) free(f->label[k].target[t]);
        free(f->label[k].target);
        free(f->label[k].name);
    }
    free(f->label);
    free(f->lines);
    free(f->scope_parent);
    free(f->name);
}

void ptx_free(ptx_module *m)
{
    for (int i = 0; i < m->n_function; i++) free_function(&m->function[i]);
    free(m->function);
    free_variables(m->variable, m->n_variable);
    free(m->text);
    free(m);
}

int ptx_find_function(const ptx_module *m, const char *name)
{
    for (int i = 0; i < m->n_function; i++)
        if (m->function[i].body && !strcmp(m->function[i].name, name)) return i;
    return -1;
}
