/* form_source.c - see form_source.h. */
#include "sample/form_source.h"

#include "sample/call_form.h"
#include "sample/gbnf.h"
#include "sample/json_schema.h"
#include "sample/pattern.h"

#include <string.h>

form_kind form_kind_named(const char *name)
{
#define X(kind, text)                                                                                                  \
    if (!strcmp(name, text)) return kind;
    FORM_KIND_LIST(X)
#undef X
    return FORM_NONE;
}

const char *form_kind_name(form_kind kind)
{
    static const char *const names[] = {"",
#define X(kind, text) text,
                                        FORM_KIND_LIST(X)
#undef X
    };
    return names[kind];
}

bool form_kind_is_json(form_kind kind) { return kind == FORM_SCHEMA || kind == FORM_CHOICE || kind == FORM_CALLS; }

typedef int json_compiler(grammar **out, const json *from, const token_trie *t, err *e);

static int compile_json(grammar **out, span source, const char *what, json_compiler *compile, const token_trie *t,
                        err *e)
{
    json *from = NULL;
    int rc = json_parse(&from, source, what, e);
    if (!rc) rc = compile(out, from, t, e);
    json_free(from);
    return rc;
}

/* Closes the builder of a grammar that is this phrase. */
static int open_phrase(grammar **out, grammar_builder *b, phrase *p, const char *name, const token_trie *t, err *e)
{
    err *own = b->e;
    grammar_open(out, b, grammar_rule_new(b, span_str(name), p), t);
    return err_copy(e, own);
}

static int compile_regex(grammar **out, span source, const token_trie *t, err *e)
{
    grammar_builder b;
    err own = {0};
    grammar_builder_open(&b, &own);
    const char *text = arena_strn(&b.mem, (const char *)source.p, source.n);
    if (!text) err_memory(&own, "a pattern");
    else if (strlen(text) != source.n) err_set(&own, ERR_FORMAT, "a pattern cannot hold NUL");
    return open_phrase(out, &b, own.code ? NULL : pattern_of_text(&b, text), "regex", t, e);
}

static int compile_choice(grammar **out, const json *list, const token_trie *t, err *e)
{
    grammar_builder b;
    err own = {0};
    grammar_builder_open(&b, &own);
    phrase *any = phrase_list(&b, PHRASE_CHOICE);
    if (json_type(list) != JSON_ARRAY || !json_count(list)) err_set(&own, ERR_FORMAT, "expected an array of strings");
    for (const json *m = own.code ? NULL : json_first(list); m; m = json_next(m)) {
        if (json_type(m) != JSON_STRING) err_set(&own, ERR_FORMAT, "expected an array of strings");
        phrase_add(&b, any, phrase_string(&b, json_str(m, "")));
    }
    return open_phrase(out, &b, any, "choice", t, e);
}

int form_compile(grammar **out, form_kind kind, span source, const token_trie *t, err *e)
{
    int rc = OK;
    *out = NULL;
    switch (kind) {
    case FORM_NONE: return err_set(e, ERR_USAGE, "a form of no kind");
    case FORM_GBNF: rc = gbnf_compile(out, source, t, e); break;
    case FORM_SCHEMA: rc = compile_json(out, source, "the schema", json_schema_compile, t, e); break;
    case FORM_REGEX: rc = compile_regex(out, source, t, e); break;
    case FORM_CHOICE: rc = compile_json(out, source, "the choice", compile_choice, t, e); break;
    case FORM_CALLS: rc = compile_json(out, source, "the form of tool calls", call_form_compile, t, e); break;
    }
    if (!rc && (rc = grammar_set_source(*out, kind, source, e))) {
        grammar_drop(*out);
        *out = NULL;
    }
    return rc;
}
