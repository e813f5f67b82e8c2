/* cmd_tokenize.c - `inferflow tokenize`: text to ids. */
#include "app/app.h"
#include "app/tokenizer_choice.h"
#include "base/file.h"

#include <stdio.h>
#include <time.h>

typedef struct tokenize_options {
    const char *prompt, *file, *pair, *language;
    bool jsonl, special, parse_special, types, target, speed;
    int64_t max_ids;
    engine_options model;
} tokenize_options;

#define ROW(field, kind, ...) PARAM_ROW(tokenize_options, field, kind, __VA_ARGS__)

static const param own_rows[] = {
    ROW(prompt, PARAM_TEXT, .alias = "p", .words = "TEXT", .doc = "the text (default: standard input)"),
    ROW(file, PARAM_TEXT, .alias = "f", .words = "FILE", .path = PATH_FILE, .doc = "text from a file"),
    ROW(pair, PARAM_TEXT, .words = "TEXT",
        .doc = "a second text: both as one input, in the tokenizer's template for two"),
    ROW(jsonl, PARAM_BOOL,
        .doc = "one JSON string (or two, as [\"a\", \"b\"]) per line of standard input, one JSON array per line out"),
    ROW(special, PARAM_BOOL, .otherwise = "on",
        .doc = "add the special tokens that the tokenizer's reference adds (--no-special: none)"),
    ROW(parse_special, PARAM_BOOL, .doc = "text that spells a special token becomes that token"),
    ROW(language, PARAM_TEXT, .words = "CODE",
        .doc = "language of the text for models that mark it: en_XX, eng_Latn, en (default: as the files say)"),
    ROW(max_ids, PARAM_INT, .words = "N", .min = 0, .max = 1 << 30,
        .doc = "truncate the text, the longer of a pair first, to N ids in all (0: never)"),
    ROW(types, PARAM_BOOL, .doc = "print {\"ids\": [...], \"types\": [...]}, with the segment number of each id"),
    ROW(target, PARAM_BOOL, .doc = "use the target-language tokenizer (Marian)"),
    ROW(speed, PARAM_BOOL, .doc = "print the best encoding speed of 5 runs instead of ids"),
};
static const size_t own_count = sizeof own_rows / sizeof *own_rows;
static const flag_group groups[] = {{"Text", own_rows, &own_count, 0}, SOURCE_FLAGS(tokenize_options, model), {NULL}};

enum { SPEED_RUNS = 5 };
static const size_t TEXT_MAX = (size_t)1 << 30;

static int flags_of(const tokenize_options *o)
{
    return (o->special ? TOKENIZE_SPECIAL : 0) | (o->parse_special ? TOKENIZE_PARSE : 0);
}

static void add_list(buf *line, const token_list *l)
{
    buf_byte(line, '[');
    for (size_t i = 0; i < l->n; i++) buf_printf(line, i ? ",%d" : "%d", l->id[i]);
    buf_byte(line, ']');
}

static int print_ids(const token_list *ids, const token_list *types, err *e)
{
    buf line = {0};
    if (types) buf_str(&line, "{\"ids\":");
    add_list(&line, ids);
    if (types) {
        buf_str(&line, ",\"types\":");
        add_list(&line, types);
        buf_byte(&line, '}');
    }
    buf_byte(&line, '\n');
    int rc = line.bad ? err_memory(e, "the ids") : OK;
    if (!rc && (fwrite(line.p, 1, line.n, stdout) != line.n || fflush(stdout) != 0))
        rc = err_set(e, ERR_IO, "cannot write to standard output");
    buf_free(&line);
    return rc;
}

static int tokenize_input(const tokenizer *t, const tokenize_options *o, token_input *in, err *e)
{
    if (o->language && (in->language = tokenizer_language(t, o->language)) <= 0)
        return err_set(e, ERR_USAGE, "--language %.40s: this tokenizer has no token for it", o->language);
    token_list ids = {0}, types = {0};
    int rc = tokenizer_encode_input(t, in, flags_of(o), &ids, &types, e);
    if (!rc) rc = print_ids(&ids, o->types ? &types : NULL, e);
    token_list_free(&ids);
    token_list_free(&types);
    return rc;
}

/* "text", or ["text", "second text"]. */
static int tokenize_line(const tokenizer *t, const tokenize_options *o, const json *j, err *e)
{
    const json *a = json_type(j) == JSON_ARRAY ? json_first(j) : j, *b = a == j ? NULL : json_next(a);
    if (json_type(a) != JSON_STRING || (a != j && (json_type(b) != JSON_STRING || json_next(b))))
        return err_set(e, ERR_FORMAT, "not a JSON string, and no list of two");
    span second = span_str(json_str(b, ""));
    return tokenize_input(t, o, &(token_input){span_str(json_str(a, "")), b ? &second : NULL, (size_t)o->max_ids}, e);
}

static int tokenize_lines(const tokenizer *t, const tokenize_options *o, err *e)
{
    json *j;
    size_t line = 0;
    int rc;
    while ((rc = jsonl_next(&j, &line, e)) > 0) {
        int bad = tokenize_line(t, o, j, e);
        if (bad) err_wrap(e, "line %zu", line);
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
static int measure_speed(const tokenizer *t, const tokenize_options *o, const token_input *in, err *e)
{
    token_list ids = {0};
    size_t bytes = in->a.n + (in->b ? in->b->n : 0);
    double best = 1e9;
    int rc = OK;
    for (int i = 0; i < SPEED_RUNS && !rc; i++) {
        ids.n = 0;
        double start = thread_seconds();
        rc = tokenizer_encode_input(t, in, flags_of(o), &ids, NULL, e);
        double took = thread_seconds() - start;
        if (took < best) best = took;
    }
    if (!rc) printf("%.6f s  %.2f MB/s  %zu tokens\n", best, (double)bytes / best / 1e6, ids.n);
    token_list_free(&ids);
    return rc;
}

static int run_tokenize(const invocation *v, err *e)
{
    const tokenize_options *o = v->options;
    if ((o->prompt != NULL) + (o->file != NULL) + o->jsonl > 1)
        return err_set(e, ERR_USAGE, "give one of --prompt, --file and --jsonl");
    if (o->jsonl && o->pair) return err_set(e, ERR_USAGE, "--jsonl takes pairs as lines: [\"a\", \"b\"]");
    tokenizer *t;
    int rc = o->target ? tokenizer_choose_target(&t, &o->model, e) : tokenizer_choose(&t, &o->model, e);
    if (rc) return rc;
    buf text = {0};
    if (o->jsonl) {
        rc = tokenize_lines(t, o, e);
    } else {
        if (!o->prompt) rc = file_read(&text, o->file ? o->file : "-", TEXT_MAX, e);
        span second = span_str(o->pair ? o->pair : "");
        token_input in = {o->prompt ? span_str(o->prompt) : buf_span(&text), o->pair ? &second : NULL,
                          (size_t)o->max_ids};
        if (!rc) rc = o->speed ? measure_speed(t, o, &in, e) : tokenize_input(t, o, &in, e);
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
             "  inferflow tokenize -p 'a question' --pair 'a passage' --types --max-ids 512\n"
             "  inferflow tokenize --tokenizer tokenizer.json --no-special <book.txt\n",
    .run = run_tokenize,
};
