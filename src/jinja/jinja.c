/* jinja.c - see jinja.h: opens a template and renders it. */
#include "jinja/jinja.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "jinja/jinja_eval.h"
#include "jinja/jinja_json.h"
#include "jinja/jinja_parse.h"

#include <string.h>

enum { SOURCE_MAX = 4 << 20 };

struct jinja {
    arena mem; /* holds this struct too */
    span source;
    const jinja_node *root;
};

/* Parses into r->mem; false: r->e has the message. */
static bool parse_guarded(jinja_run *r, span source, const jinja_node **root)
{
    if (setjmp(r->out)) return false;
    *root = jinja_parse(r, source);
    return true;
}

int jinja_open(jinja **out, span source, err *e)
{
    *out = NULL;
    err own = {0};
    jinja_run r = {.e = e ? e : &own};
    const jinja_node *root = NULL;
    if (source.n > SOURCE_MAX) return err_set(e, ERR_LIMIT, "template: more than %d bytes", SOURCE_MAX);
    if (!utf8_is_valid(source)) return err_set(e, ERR_FORMAT, "template: not valid UTF-8");
    char *copy = arena_strn(&r.mem, (const char *)source.p, source.n);
    jinja *t = copy ? arena_alloc(&r.mem, sizeof *t) : NULL;
    if (!t) {
        arena_free(&r.mem);
        return err_memory(e, "the template");
    }
    t->source = span_of(copy, source.n);
    if (!parse_guarded(&r, t->source, &root)) {
        arena_free(&r.mem);
        return err_wrap(r.e, "template");
    }
    t->root = root;
    t->mem = r.mem;
    *out = t;
    return OK;
}

void jinja_close(jinja *t)
{
    if (!t) return;
    arena mem = t->mem;
    arena_free(&mem);
}

static void add_own(jinja_run *r, const jinja_own *own)
{
    for (; own && own->name; own++)
        jdict_put(r, r->context.dict, jval_text(own->name),
                  own->text ? jval_text(own->text) : jval_undefined(own->name, NULL));
}

static bool render_guarded(jinja_run *r, const jinja *t, const jinja_input *in, jtext *out)
{
    if (setjmp(r->out)) return false;
    r->context = jinja_read_json(r, in->context);
    if (r->context.kind != J_DICT)
        jinja_stop(r, ERR_FORMAT, "context: expected an object, got %s", jval_type(r->context));
    add_own(r, in->own);
    r->depth = 0;
    jinja_eval(r, t->root, out);
    return true;
}

int jinja_render(const jinja *t, const jinja_input *in, jinja_output *out, err *e)
{
    err own = {0};
    jinja_run r = {.e = e ? e : &own, .now = in->now};
    jtext text = {0};
    bool ok = render_guarded(&r, t, in, &text);
    if (ok) {
        buf_add(&out->text, text.p ? (const void *)text.p : "", text.n);
        if (text.user) buf_add(&out->user, text.user, text.n);
        for (size_t i = 0; !text.user && i < text.n; i++) buf_byte(&out->user, 0);
        if (out->text.bad || out->user.bad) ok = err_memory(r.e, "the rendering") == OK;
    }
    arena_free(&r.mem);
    return ok ? OK : r.e->code;
}

void jinja_output_free(jinja_output *o)
{
    buf_free(&o->text);
    buf_free(&o->user);
}
