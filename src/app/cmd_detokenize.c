/* cmd_detokenize.c - `inferflow detokenize`: ids to text. */
#include "app/app.h"
#include "app/ids.h"
#include "app/tokenizer_choice.h"

#include <stdio.h>
#include <unistd.h>

typedef struct detokenize_options {
    const char *ids;
    bool jsonl, skip_special, target;
    engine_options model;
} detokenize_options;

#define ROW(field, kind, ...) PARAM_ROW(detokenize_options, field, kind, __VA_ARGS__)

static const param own_rows[] = {
    ROW(ids, PARAM_TEXT, .words = "IDS", .path = PATH_IDS,
        .doc = "the ids: 1,2,3 or @FILE (default: a JSON array on standard input)"),
    ROW(jsonl, PARAM_BOOL, .doc = "one JSON array per line of standard input, one JSON string per line out"),
    ROW(skip_special, PARAM_BOOL, .doc = "special tokens give no text"),
    ROW(target, PARAM_BOOL, .doc = "use the target-language tokenizer (Marian)"),
};
static const size_t own_count = sizeof own_rows / sizeof *own_rows;
static const flag_group groups[] = {{"Ids", own_rows, &own_count, 0}, SOURCE_FLAGS(detokenize_options, model), {NULL}};

static int print_text(const buf *text, err *e)
{
    if (text->bad) return err_memory(e, "the text");
    bool ok = fwrite(text->p ? (const char *)text->p : "", 1, text->n, stdout) == text->n && fflush(stdout) == 0;
    return ok ? OK : err_set(e, ERR_IO, "cannot write to standard output");
}

static int decode_line(const tokenizer *t, const json *list, int flags, err *e)
{
    if (json_type(list) != JSON_ARRAY) return err_set(e, ERR_FORMAT, "not a JSON array");
    token_list ids = {0};
    buf text = {0}, line = {0};
    int rc = OK;
    for (const json *j = json_first(list); j && !rc; j = json_next(j)) {
        int64_t id = json_int(j, -1);
        if (!json_is_int(j) || id < 0 || id > INT32_MAX)
            rc = err_set(e, ERR_FORMAT, "element %zu is not a token id", ids.n);
        else if (!token_list_add(&ids, (int32_t)id)) rc = err_memory(e, "the ids");
    }
    if (!rc) rc = tokenizer_decode(t, ids.id, ids.n, flags, &text, e);
    if (!rc && (!json_quote(&line, buf_span(&text)) || !buf_byte(&line, '\n'))) line.bad = true;
    if (!rc) rc = print_text(&line, e);
    token_list_free(&ids);
    buf_free(&text);
    buf_free(&line);
    return rc;
}

static int decode_lines(const tokenizer *t, int flags, err *e)
{
    json *j;
    size_t line = 0;
    int rc;
    while ((rc = jsonl_next(&j, &line, e)) > 0) {
        int bad = decode_line(t, j, flags, e);
        json_free(j);
        if (bad) {
            err_wrap(e, "line %zu", line);
            return bad;
        }
    }
    return rc;
}

static int decode_once(const tokenizer *t, const char *given, int flags, err *e)
{
    token_list ids = {0};
    buf text = {0};
    int rc = ids_parse(&ids, given ? given : "@-", e);
    if (!rc) rc = tokenizer_decode(t, ids.id, ids.n, flags, &text, e);
    if (!rc && isatty(STDOUT_FILENO)) buf_byte(&text, '\n');
    if (!rc) rc = print_text(&text, e);
    token_list_free(&ids);
    buf_free(&text);
    return rc;
}

static int run_detokenize(const invocation *v, err *e)
{
    const detokenize_options *o = v->options;
    if (o->ids && o->jsonl) return err_set(e, ERR_USAGE, "give one of --ids and --jsonl");
    tokenizer *t;
    int rc = o->target ? tokenizer_choose_target(&t, &o->model, e) : tokenizer_choose(&t, &o->model, e);
    if (rc) return rc;
    int flags = o->skip_special ? DETOKENIZE_SKIP_SPECIAL : 0;
    rc = o->jsonl ? decode_lines(t, flags, e) : decode_once(t, o->ids, flags, e);
    tokenizer_close(t);
    return rc;
}

const command command_detokenize = {
    .name = "detokenize",
    .summary = "token ids to text",
    .flags = groups,
    .options_size = sizeof(detokenize_options),
    .run = run_detokenize,
};
