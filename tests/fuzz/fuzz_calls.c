/* fuzz_calls.c - schemas of tools whose arguments are tags: what compiles gives calls that the parser reads, in one
 * piece or several, as arguments that the same schema allows as JSON. */
#include "tests/grammar_vocab.h"

#include "sample/call_form.h"
#include "sample/json_schema.h"
#include "chat/call_parser.h"

#include <string.h>

static grammar *form_of(const call_format *f, const json *schema, err *e)
{
    const call_writing *w = &f->writing;
    const char *at = strchr(w->before, '@');
    buf before = {0}, text = {0};
    json *from;
    grammar *g = NULL;
    buf_add(&before, w->before, (size_t)(at - w->before));
    buf_printf(&before, "f%s", at + 1);
    const call_form one = {buf_cstr(&before), w->after, schema};
    const call_forms all = {
        .form = &one, .n = 1, .open = "", .between = "", .close = "", .key = w->key, .value = w->value, .end = w->end};
    if (!call_form_print(&text, &all) || json_parse(&from, buf_span(&text), "form", e)) abort();
    if (call_form_compile(&g, from, rig_trie(), e) && (g || !e->msg[0])) abort();
    json_free(from);
    buf_free(&before);
    buf_free(&text);
    return g;
}

/* A text drawn from the form; false: it did not end. */
static bool draw(grammar *g, uint64_t seed, buf *out)
{
    uint64_t allowed[(RIG_VOCAB + 63) / 64];
    grammar_place at = {0};
    grammar_next next = {0};
    int32_t ids[400];
    err e = {0};
    const token_trie *t = rig_trie();
    for (int64_t k = 0; k < 400; k++) {
        if (grammar_follow(g, &at, ids, k, false, allowed, &next, &e)) {
            if (e.code != ERR_LIMIT) abort();
            return false;
        }
        if (next.complete) return true;
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        int32_t id = (int32_t)((seed >> 33) % RIG_VOCAB);
        while (!(allowed[id >> 6] >> (id & 63) & 1)) id = (id + 1) % RIG_VOCAB;
        ids[k] = id;
        buf_add(out, t->bytes + t->start[id], t->start[id + 1] - t->start[id]);
    }
    return false;
}

/* The arguments of the only call. */
static void read_call(const call_format *f, const json *tools, span text, size_t step, buf *out)
{
    call_parser *p;
    chat_message m = {0};
    if (call_parser_open(&p, &(call_parser_options){.format = f, .bound = true, .tools = tools}, NULL)) abort();
    for (size_t i = 0; i < text.n; i += step) {
        const size_t n = text.n - i < step ? text.n - i : step;
        if (call_parser_feed(p, span_of(text.p + i, n), i + n == text.n, &m, NULL)) abort();
    }
    if (m.n_calls != 1 || !m.calls[0].whole || m.content.n) abort();
    buf_add(out, m.calls[0].arguments.p, m.calls[0].arguments.n);
    chat_message_free(&m);
    call_parser_close(p);
}

static bool allows(grammar *g, span text)
{
    grammar_place at = {0};
    grammar_next next = {0};
    err e = {0};
    bool good = true;
    int32_t *ids = calloc(text.n + 1, sizeof *ids);
    for (size_t i = 0; i < text.n; i++) ids[i] = text.p[i];
    if (grammar_follow(g, &at, ids, (int64_t)text.n, false, NULL, &next, &e)) good = e.code == ERR_LIMIT;
    else good = next.complete;
    free(ids);
    return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    json *schema;
    if (json_parse(&schema, span_of(data, n), "schema", NULL)) return 0;
    json *holder = json_new_object(), *tools = json_add_array(holder, "tools");
    json *function = json_add_object(json_add_object(tools, NULL), "function");
    json_add_str(function, "name", "f");
    json_add_copy(function, "parameters", schema);
    for (const call_format *f = call_formats; f->name; f++) {
        err e = {0};
        grammar *g = f->writing.key ? form_of(f, schema, &e) : NULL, *same;
        buf text = {0}, whole = {0}, pieces = {0};
        if (g && draw(g, n, &text)) {
            read_call(f, tools, buf_span(&text), text.n, &whole);
            read_call(f, tools, buf_span(&text), 1 + n % 7, &pieces);
            if (whole.n != pieces.n || memcmp(whole.p, pieces.p, whole.n) != 0) abort();
            if (!json_schema_compile(&same, schema, rig_trie(), &e) && !allows(same, buf_span(&whole))) abort();
            grammar_drop(e.code ? NULL : same);
        }
        grammar_drop(g);
        buf_free(&text);
        buf_free(&whole);
        buf_free(&pieces);
    }
    json_free(holder);
    json_free(schema);
    return 0;
}
