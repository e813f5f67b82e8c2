/* cmd_tokenize.c - `inferflow tokenize`: text to ids. */
#include "app/app.h"
#include "app/tokenizer_choice.h"
#include "base/file.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct tokenize_options {
    const char *prompt, *file;
    bool jsonl, special, parse_special, speed;
    engine_options model;
} tokenize_options;

#define ROW(name, kind, ...)                                                                                           \
    {                                                                                                                  \
        .key = #name, .type = kind, .offset = offsetof(tokenize_options, name), __VA_ARGS__                            \
    }

static const param own_rows[] = {
    ROW(prompt, PARAM_TEXT, .alias = "p", .words = "TEXT", .doc = "the text (default: standard input)"),
    ROW(file, PARAM_TEXT, .alias = "f", .words = "FILE", .doc = "text from a file"),
    ROW(jsonl, PARAM_BOOL, .doc = "one JSON string per line of standard input, one JSON array per line out"),
    ROW(special, PARAM_BOOL, .otherwise = "on",
        .doc = "add the special tokens that the tokenizer's reference adds (--no-special: none)"),
    ROW(parse_special, PARAM_BOOL, .doc = "text that spells a special token becomes that token"),
    ROW(speed, PARAM_BOOL, .doc = "print the best encoding speed of 5 runs instead of ids"),
};
static const size_t own_count = sizeof own_rows / sizeof *own_rows;
static const flag_group groups[] = {{"Text", own_rows, &own_count, 0}, SOURCE_FLAGS(tokenize_options, model), {NULL}};

enum { SPEED_RUNS = 5 };
static const size_t TEXT_MAX = (size_t)1 << 30;

static int print_ids(const token_list *ids, err *e)
{
    buf line = {0};
    buf_byte(&line, '[');
    for (size_t i = 0; i < ids->n; i++) buf_printf(&line, i ? ",%d" : "%d", ids->id[i]);
    buf_str(&line, "]\n");
    int rc = line.bad ? err_set(e, ERR_MEMORY, "out of memory for the ids") : OK;
    if (!rc && (fwrite(line.p, 1, line.n, stdout) != line.n || fflush(stdout) != 0))
        rc = err_set(e, ERR_IO, "cannot write to standard output");
    buf_free(&line);
    return rc;
}

static int tokenize_text(const tokenizer *t, span text, int flags, err *e)
{
    token_list ids = {0};
    int rc = tokenizer_encode(t, text, flags, &ids, e);
    if (!rc) rc = print_ids(&ids, e);
    token_list_free(&ids);
    return rc;
}

static int tokenize_lines(const tokenizer *t, int flags, err *e)
{
    json *j;
    size_t line = 0;
    int rc;
    while ((rc = jsonl_next(&j, &line, e)) > 0) {
        int bad = OK;
        if (json_type(j) != JSON_STRING) bad = err_set(e, ERR_FORMAT, "line %zu: not a JSON string", line);
        else if ((bad = tokenize_text(t, span_str(json_str(j, "")), flags, e))) err_wrap(e, "line %zu", line);
        json_free(j);
        if (bad) return bad;
    }
    return rc;
}

/* Time that this thread computed: other programs on the machine do not count. */
static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* "seconds  MB/s  tokens" of the best run. */
static int measure(const tokenizer *t, span text, int flags, err *e)
{
    token_list ids = {0};
    double best = 1e9;
    int rc = OK;
    for (int i = 0; i < SPEED_RUNS && !rc; i++) {
        ids.n = 0;
        double start = thread_seconds();
        rc = tokenizer_encode(t, text, flags, &ids, e);
        double took = thread_seconds() - start;
        if (took < best) best = took;
    }
    if (!rc) printf("%.6f s  %.2f MB/s  %zu tokens\n", best, (double)text.n / best / 1e6, ids.n);
    token_list_free(&ids);
    return rc;
}

static int run_tokenize(const invocation *v, err *e)
{
    const tokenize_options *o = v->options;
    if ((o->prompt != NULL) + (o->file != NULL) + o->jsonl > 1)
        return err_set(e, ERR_USAGE, "give one of --prompt, --file and --jsonl");
    tokenizer *t;
    int rc = tokenizer_choose(&t, &o->model, e);
    if (rc) return rc;
    int flags = (o->special ? TOKENIZE_SPECIAL : 0) | (o->parse_special ? TOKENIZE_PARSE : 0);
    buf text = {0};
    if (o->jsonl) {
        rc = tokenize_lines(t, flags, e);
    } else {
        if (!o->prompt) rc = file_read(&text, o->file ? o->file : "-", TEXT_MAX, e);
        span s = o->prompt ? span_str(o->prompt) : buf_span(&text);
        if (!rc) rc = o->speed ? measure(t, s, flags, e) : tokenize_text(t, s, flags, e);
    }
    buf_free(&text);
    tokenizer_close(t);
    return rc;
}

const command command_tokenize = {
    .name = "tokenize",
    .summary = "text to token ids, as one JSON array",
    .flags = groups,
    .options_size = sizeof(tokenize_options),
    .notes = "Examples:\n"
             "  inferflow tokenize -p 'Hello world'\n"
             "  inferflow tokenize --tokenizer tokenizer.json --no-special <book.txt\n",
    .run = run_tokenize,
};
