/* text_rules.c - see text_rules.h. Grammars are compiled here, on the listener's thread. */
#include "serve/text_rules.h"

#include "sample/gbnf.h"

/* A field of text_rules, or a member of one, that was compiled. */
typedef struct source {
    exchange *x;
    const token_trie *t;
    grammar **out;
} source;

static bool refuse(exchange *x, const char *name, const char *code, const char *why)
{
    reply_error(x, 400, name, code, "%s: %s", name, why);
    return false;
}

/* Ends the compiling of a field. */
static bool compiled(const source *to, const char *name, const err *e)
{
    if (!e->code) return true;
    if (e->code == ERR_MEMORY) reply_error(to->x, 500, name, NULL, "out of memory");
    else refuse(to->x, name, "invalid_value", e->msg);
    return false;
}

static bool read_grammar(const source *to, const char *name, const char *text)
{
    err e = {0};
    gbnf_compile(to->out, span_str(text), to->t, &e);
    return compiled(to, name, &e);
}

/* One of several texts. */
static bool read_choice(const source *to, const char *name, const json *v)
{
    err e = {0};
    grammar_builder b;
    if (json_type(v) != JSON_ARRAY || !json_count(v))
        return field_wrong_type(to->x, name, "an array of at least one string", v);
    for (const json *m = json_first(v); m; m = json_next(m))
        if (json_type(m) != JSON_STRING) return field_wrong_type(to->x, name, "an array of strings", m);
    grammar_builder_open(&b, &e);
    phrase *any = phrase_list(&b, PHRASE_CHOICE);
    for (const json *m = json_first(v); m; m = json_next(m)) phrase_add(&b, any, phrase_string(&b, json_str(m, "")));
    grammar_open(to->out, &b, grammar_rule_new(&b, span_str("choice"), any), to->t);
    return compiled(to, name, &e);
}

/* Exactly one member of structured_outputs says what the form is. */
static bool read_structured(server *s, const source *to, const json *v)
{
    struct {
        const char *grammar;
        const json *choice;
    } o = {0};
    const field rows[] = {{.name = "grammar", .type = FIELD_TEXT, .offset = 0},
                          {.name = "choice", .type = FIELD_NODE, .offset = sizeof o.grammar},
                          {NULL}};
    if (json_type(v) != JSON_OBJECT) return field_wrong_type(to->x, "structured_outputs", "an object", v);
    if (!fields_read(to->x, rows, s->o->lenient, v, &o)) return false;
    if (!!o.grammar + !!o.choice != 1)
        return refuse(to->x, "structured_outputs", "invalid_value", "give exactly one of grammar and choice");
    return o.grammar ? read_grammar(to, "grammar", o.grammar) : read_choice(to, "choice", o.choice);
}

bool text_rules_read(server *s, exchange *x, const text_rules *r, grammar **out)
{
    err e = {0};
    *out = NULL;
    if (!r->grammar && !r->structured_outputs) return true;
    if (!!r->grammar + !!r->structured_outputs > 1)
        return refuse(x, "grammar", "invalid_value", "give one of grammar and structured_outputs");
    const source to = {x, engine_token_trie(s->g, &e), out};
    if (!to.t && e.code == ERR_USAGE) return refuse(x, "grammar", "no_tokenizer", e.msg);
    if (!to.t) return compiled(&to, "grammar", &e);
    return r->grammar ? read_grammar(&to, "grammar", r->grammar) : read_structured(s, &to, r->structured_outputs);
}
