/* call_form.c - see call_form.h. Names of special tokens in literals become marked bytes first. */
#include "sample/call_form.h"

#include "base/mem.h"
#include "sample/json_schema_tags.h"

#include <string.h>

enum { LITERAL_BYTES_MAX = 1000 };

/* A literal as bytes of tokens: names of special tokens that the vocabulary has stand between marks. It lies in the
 * builder's arena. */
static span spell(grammar_builder *b, const token_trie *t, const char *literal, const char *special)
{
    buf out = {0};
    for (const char *p = literal; *p;) {
        size_t longest = 0;
        for (const char *name = special ? special : ""; *name;) {
            const size_t n = strcspn(name, " ");
            buf marked = {0};
            buf_byte(&marked, TRIE_MARK);
            buf_add(&marked, name, n);
            buf_byte(&marked, TRIE_MARK);
            if (n > longest && !strncmp(p, name, n) && token_trie_has(t, buf_span(&marked))) longest = n;
            buf_free(&marked);
            name += n + strspn(name + n, " ");
        }
        if (longest) buf_byte(&out, TRIE_MARK);
        buf_add(&out, p, longest ? longest : 1);
        if (longest) buf_byte(&out, TRIE_MARK);
        p += longest ? longest : 1;
    }
    phrase *kept = phrase_text(b, buf_span(&out));
    if (out.bad) err_memory(b->e, "the form of tool calls");
    buf_free(&out);
    return kept ? kept->text : (span){0};
}

/* What is left of a literal behind the trigger that it begins with. */
static phrase *behind(grammar_builder *b, span literal, span trigger)
{
    if (literal.n >= trigger.n && (!trigger.n || memcmp(literal.p, trigger.p, trigger.n) == 0))
        return phrase_text(b, span_of(literal.p + trigger.n, literal.n - trigger.n));
    err_set(b->e, ERR_USAGE, "a tool call does not begin with its trigger");
    return NULL;
}

/* The literals of call_forms as bytes of tokens. */
typedef struct spelled {
    span open, between, close, trigger, *before, *after;
    phrase **arguments;
} spelled;

/* One call of any tool; skipped: a trigger that was read already, or nothing. */
static phrase *one_call(grammar_builder *b, const spelled *s, size_t n, span skipped)
{
    phrase *any = phrase_list(b, PHRASE_CHOICE);
    for (size_t i = 0; i < n && !b->e->code; i++) {
        phrase *rest = phrase_both(b, s->arguments[i], phrase_text(b, s->after[i]));
        phrase_add(b, any, phrase_both(b, behind(b, s->before[i], skipped), rest));
    }
    return any;
}

static phrase *all_calls(grammar_builder *b, const call_forms *f, const token_trie *t, schema_doubt *doubt)
{
    static const span none = {(const uint8_t *)"", 0};
    spelled s = {.open = spell(b, t, f->open, f->special),
                 .between = spell(b, t, f->between, f->special),
                 .close = spell(b, t, f->close, f->special),
                 .trigger = spell(b, t, f->trigger ? f->trigger : "", f->special),
                 .before = arena_array(&b->mem, f->n + 1, sizeof *s.before),
                 .after = arena_array(&b->mem, f->n + 1, sizeof *s.after),
                 .arguments = arena_array(&b->mem, f->n + 1, sizeof *s.arguments)};
    if (!s.before || !s.after || !s.arguments) err_memory(b->e, "the form of tool calls");
    json_tags tags = {0};
    if (f->key) {
        tags.key = spell(b, t, f->key, f->special);
        tags.value = spell(b, t, f->value ? f->value : "", f->special);
        tags.end = spell(b, t, f->end ? f->end : "", f->special);
        stop_rules_open(&tags.text, b, span_without_blanks(span_str(f->end ? f->end : "")));
    }
    for (size_t i = 0; i < f->n && !b->e->code; i++) {
        s.before[i] = spell(b, t, f->form[i].before, f->special);
        s.after[i] = spell(b, t, f->form[i].after, f->special);
        s.arguments[i] = f->key ? json_schema_tags(b, f->form[i].schema, &tags, doubt)
                                : json_schema_phrase(b, f->form[i].schema, doubt);
    }
    if (b->e->code) return NULL;
    phrase *open = s.open.n ? behind(b, s.open, s.trigger) : phrase_string(b, "");
    phrase *first = one_call(b, &s, f->n, s.open.n ? none : s.trigger);
    phrase *next = phrase_both(b, phrase_text(b, s.between), one_call(b, &s, f->n, none));
    phrase *calls = phrase_both(b, first, phrase_repeat(b, next, 0, f->several ? -1 : 0));
    phrase *all = phrase_both(b, open, phrase_both(b, calls, phrase_text(b, s.close)));
    return s.trigger.n ? text_until(b, s.trigger, all, f->required) : all;
}

/* ---- as JSON */

static void add_literal(json *to, const char *key, const char *text)
{
    if (text) json_add_str(to, key, text);
}

bool call_form_print(buf *out, const call_forms *f)
{
    json *root = json_new_object(), *list = json_add_array(root, "form");
    for (size_t i = 0; i < f->n; i++) {
        json *one = json_add_object(list, NULL);
        add_literal(one, "before", f->form[i].before);
        add_literal(one, "after", f->form[i].after);
        if (f->form[i].schema) json_add_copy(one, "schema", f->form[i].schema);
    }
    add_literal(root, "open", f->open);
    add_literal(root, "between", f->between);
    add_literal(root, "close", f->close);
    add_literal(root, "trigger", f->trigger);
    add_literal(root, "key", f->key);
    add_literal(root, "value", f->value);
    add_literal(root, "end", f->end);
    add_literal(root, "special", f->special);
    json_add_bool(root, "several", f->several);
    json_add_bool(root, "required", f->required);
    const bool good = json_print(out, root, false);
    json_free(root);
    return good;
}

static const char *read_literal(const json *from, const char *key, const char *otherwise, err *e)
{
    const json *v = json_get(from, key);
    const char *text = json_str(v, otherwise);
    if (v && json_type(v) != JSON_STRING) err_set(e, ERR_FORMAT, "%s: expected a string", key);
    else if (text && strlen(text) > LITERAL_BYTES_MAX)
        err_set(e, ERR_LIMIT, "%s: more than %d bytes", key, LITERAL_BYTES_MAX);
    return text;
}

int call_form_compile(grammar **out, const json *from, const token_trie *t, err *e)
{
    err own = {0};
    schema_doubt doubt = {0};
    const json *list = json_get(from, "form");
    call_form *form = mem_zero(json_count(list) + 1, sizeof *form);
    call_forms f = {.form = form,
                    .open = read_literal(from, "open", "", &own),
                    .between = read_literal(from, "between", "", &own),
                    .close = read_literal(from, "close", "", &own),
                    .trigger = read_literal(from, "trigger", NULL, &own),
                    .key = read_literal(from, "key", NULL, &own),
                    .value = read_literal(from, "value", "", &own),
                    .end = read_literal(from, "end", "", &own),
                    .special = read_literal(from, "special", NULL, &own),
                    .several = json_bool(json_get(from, "several"), false),
                    .required = json_bool(json_get(from, "required"), false)};
    *out = NULL;
    if (!form) err_memory(&own, "the form of tool calls");
    else if (json_type(list) != JSON_ARRAY || !json_count(list))
        err_set(&own, ERR_FORMAT, "form: expected an array of forms of calls");
    for (const json *m = own.code ? NULL : json_first(list); m && !own.code; m = json_next(m))
        form[f.n++] = (call_form){read_literal(m, "before", "", &own), read_literal(m, "after", "", &own),
                                  json_get(m, "schema")};
    if (!own.code) {
        grammar_builder b;
        grammar_builder_open(&b, &own);
        phrase *all = all_calls(&b, &f, t, &doubt);
        grammar_open(out, &b, grammar_rule_new(&b, span_str("tool calls"), all), t);
    }
    mem_free(form);
    return json_schema_error(e, &own, &doubt);
}
