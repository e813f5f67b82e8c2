/* cmd_replay.c - `inferflow replay`: draws the texts of receipts again (engine/receipt.h), and says whether every token
 * is what the model writes. */
#include "app/app.h"
#include "base/file.h"
#include "base/mem.h"
#include "engine/receipt.h"
#include "measure/auto_open.h"
#include "measure/replay.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct replay_options {
    engine_options model;
} replay_options;

static const flag_group groups[] = {MODEL_FLAGS(replay_options, model), {NULL}};

static const size_t FILE_MAX = (size_t)1 << 30;

/* A file of receipts while they are checked. */
typedef struct checking {
    engine *g;
    const char *path;
    fingerprint here;
    json *results; /* NULL: text */
    int64_t n, wrong;
} checking;

/* `520 " the" (0.31)`; -1: the end. */
static void add_token(buf *out, const engine *g, int32_t id, float logprob)
{
    const tokenizer *t = engine_target_tokenizer(g);
    buf text = {0};
    if (id < 0) {
        buf_str(out, "no token");
        return;
    }
    buf_printf(out, "%d", id);
    if (t) {
        buf_byte(out, ' ');
        json_quote(out, tokenizer_bytes(t, id, &text) ? buf_span(&text) : tokenizer_piece(t, id));
    }
    buf_free(&text);
    buf_printf(out, " (probability %.4g)", exp((double)logprob));
}

static void tell_difference(const checking *c, const replay *r, buf *out)
{
    buf_printf(out, "token %" PRId64 " is ", r->at);
    add_token(out, c->g, r->given, r->given_logprob);
    buf_str(out, r->drawn < 0 ? ", but no logit was finite" : ", but drawn was ");
    if (r->drawn >= 0) add_token(out, c->g, r->drawn, r->drawn_logprob);
}

static void add_result(json *list, const receipt *r, const replay *found)
{
    json *to = json_add_object(list, NULL);
    json_add_int(to, "tokens", (int64_t)r->ids.n);
    json_add_bool(to, "equal", found->at < 0);
    if (found->at < 0) return;
    json_add_int(to, "position", found->at);
    json_add_int(to, "given", found->given);
    json_add_int(to, "drawn", found->drawn);
    if (found->given >= 0) json_add_num(to, "given_logprob", (double)found->given_logprob);
    if (found->drawn >= 0) json_add_num(to, "drawn_logprob", (double)found->drawn_logprob);
}

/* One receipt; `where`: file and line, `line` 0: the file has no others. */
static int check_one(checking *c, const json *from, const char *where, int line, err *e)
{
    receipt r = {0};
    replay found;
    buf said = {0};
    int rc = receipt_read(&r, from, &c->here, c->g, e);
    if (!rc) rc = engine_replay(c->g, &r.q, r.ids.id, r.ids.n, r.ended, &found, e);
    if (rc) err_wrap(e, "%s", where);
    if (!rc) {
        c->n++;
        if (found.at >= 0) {
            tell_difference(c, &found, &said);
            if (!c->wrong++) err_set(e, ERR_FORMAT, "%s: %s", where, buf_cstr(&said));
        }
        if (c->results) add_result(c->results, &r, &found);
        else if (found.at < 0 && line) printf("line %d: %zu tokens, all equal\n", line, r.ids.n);
        else if (found.at < 0) printf("%zu tokens, all equal\n", r.ids.n);
        else if (line) printf("line %d: %s\n", line, buf_cstr(&said));
    }
    buf_free(&said);
    receipt_free(&r);
    return rc;
}

/* A receipt, or all that a reply of the server holds: of its choices, or its own. */
static int check_all_in(checking *c, const json *from, const char *where, int line, err *e)
{
    const json_kind kind = json_type(from);
    int rc = OK;
    if (kind == JSON_OBJECT && (json_get(from, "prompt_ids") || json_get(from, "arithmetic")))
        return check_one(c, from, where, line, e);
    if (kind == JSON_OBJECT || kind == JSON_ARRAY)
        for (const json *m = json_first(from); m && !rc; m = json_next(m)) rc = check_all_in(c, m, where, line, e);
    return rc;
}

/* What a line says without the words of a stream of events; empty: nothing of use. */
static span line_text(span s)
{
    while (s.n && strchr(" \t\r", s.p[s.n - 1])) s.n--;
    if (span_starts(s, "event:") || span_starts(s, "id:") || span_starts(s, ":")) return (span){0};
    if (span_starts(s, "data:")) s = span_of(s.p + 5, s.n - 5);
    while (s.n && strchr(" \t", *s.p)) s = span_of(s.p + 1, s.n - 1);
    return span_is(s, "[DONE]") ? (span){0} : s;
}

/* The whole file is a receipt or a reply, or each line is, or each event of a stream. */
static int check_file(checking *c, span text, err *e)
{
    json *from = NULL;
    int rc = OK, line = 0;
    if (json_parse(&from, text, c->path, &(err){0}) == OK) {
        rc = check_all_in(c, from, c->path, 0, e);
        json_free(from);
    } else {
        for (size_t at = 0, next; at < text.n && !rc; at = next + 1) {
            char where[300];
            for (next = at; next < text.n && text.p[next] != '\n';) next++;
            const span one = line_text(span_of(text.p + at, next - at));
            snprintf(where, sizeof where, "%.280s:%d", c->path, ++line);
            if (!one.n) continue;
            rc = json_parse(&from, one, where, e);
            if (!rc) rc = check_all_in(c, from, where, line, e);
            json_free(from);
            from = NULL;
        }
    }
    if (rc || c->n) return rc;
    return err_set(e, ERR_FORMAT,
                   "%s: there is no receipt in it: a reply has one where its request says \"receipt\": true", c->path);
}

static int run_replay(const invocation *v, err *e)
{
    const replay_options *o = v->options;
    checking c = {.path = v->operand[0]};
    json *root = v->json ? json_new_object() : NULL;
    buf text = {0};
    int rc = file_read_text(&text, c.path, FILE_MAX, e);
    if (!rc) rc = auto_open(&c.g, &o->model, e);
    if (!rc) rc = engine_fingerprint(c.g, &c.here, e);
    c.results = json_add_array(root, "receipts");
    if (!rc) rc = check_file(&c, buf_span(&text), e);
    if (!rc && root) rc = app_print_json(root, e);
    json_free(root);
    buf_free(&text);
    engine_close(c.g);
    return rc ? rc : c.wrong ? ERR_FORMAT : OK;
}

const command command_replay = {
    .name = "replay",
    .summary = "check that a model, seed and parameters give just this text",
    .operands = "FILE",
    .operand_min = 1,
    .operand_max = 1,
    .prints_json = true,
    .flags = groups,
    .options_size = sizeof(replay_options),
    .run = run_replay,
    .notes = "FILE is a receipt, from `run --receipt FILE`, or a reply of the server that holds some, whole or\n"
             "streamed, or JSON lines of these. All logits are computed in one pass and each token is drawn\n"
             "again, on any processor. Status 1: a token differs, or the model or its arithmetic does. Give the\n"
             "model as to `run`; without --model it is the built-in one.\n"
             "\n"
             "  inferflow run -p \"Once upon a time\" --seed 1 --receipt story.json\n"
             "  inferflow replay story.json\n"
             "  curl localhost:8080/v1/completions -d '{\"prompt\": \"Once\", \"receipt\": true}' >reply.json\n"
             "  inferflow replay reply.json\n",
};
