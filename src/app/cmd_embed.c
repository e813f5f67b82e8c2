/* cmd_embed.c - `inferflow embed`: texts to vectors, one a line. All lines are read and tokenized, then go through
 * the engine in blocks: long texts first, many in a step, printed in the order they came in. */
#include "measure/auto_open.h"
#include "measure/evaluate.h"
#include "app/app.h"
#include "app/embed_flags.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "measure/embedding.h"
#include "io/npy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK = 4096, BATCH = 64 };
static const size_t TEXT_MAX = (size_t)1 << 30;

typedef struct own_options {
    const char *output;
    bool jsonl, scores;
} own_options;

typedef struct embed_options {
    own_options own;
    embed_flags how;
    engine_options model;
} embed_options;

static const param own_rows[] = {
    {"output", PARAM_TEXT, offsetof(own_options, output), NULL, 0, 0, "F.npy",
     "write one float32 matrix, a row per line, instead of printing", "o", PATH_OUT},
    {"jsonl", PARAM_BOOL, offsetof(own_options, jsonl), NULL, 0, 0, NULL,
     "lines are JSON: \"text\", [\"text\", \"second text\"], [ids], or {\"ids\": [...], \"types\": [...]}", NULL},
    {"scores", PARAM_BOOL, offsetof(own_options, scores), NULL, 0, 0, NULL,
     "print the scores of the classification head instead of vectors", NULL},
};
static const size_t own_count = sizeof own_rows / sizeof *own_rows;

static const flag_group groups[] = {{"Embedding", own_rows, &own_count, offsetof(embed_options, own)},
                                    {"Vectors", embed_param_rows, &embed_param_count, offsetof(embed_options, how)},
                                    MODEL_FLAGS(embed_options, model),
                                    {NULL}};

/* All inputs, one after another; input i has ids start[i] … start[i + 1] - 1. */
typedef struct inputs {
    token_list ids, types;
    size_t *start, n, cap;
    size_t n_cut; /* inputs longer than the model takes */
    bool cut;     /* the last one that was read */
} inputs;

static int inputs_end_line(inputs *in, err *e)
{
    void *p = in->start;
    if (!mem_grow(&p, &in->cap, in->n + 2, sizeof *in->start)) return err_memory(e, NULL);
    in->start = p;
    if (in->n == 0) in->start[0] = 0;
    in->start[++in->n] = in->ids.n;
    return OK;
}

static void inputs_free(inputs *in)
{
    token_list_free(&in->ids);
    token_list_free(&in->types);
    mem_free(in->start);
}

/* ---- reading */

static int add_ids(const json *ids, const json *types, inputs *in, err *e)
{
    const json *t = json_first(types);
    if (types && json_count(types) != json_count(ids))
        return err_set(e, ERR_FORMAT, "%zu types for %zu ids", json_count(types), json_count(ids));
    for (const json *j = json_first(ids); j; j = json_next(j), t = json_next(t)) {
        int64_t id = json_int(j, -1), type = t ? json_int(t, -1) : 0;
        if (id < 0 || id > INT32_MAX || type < 0 || type > INT32_MAX)
            return err_set(e, ERR_FORMAT, "an id or type that is no whole number");
        if (!token_list_add(&in->ids, (int32_t)id) || !token_list_add(&in->types, (int32_t)type))
            return err_memory(e, NULL);
    }
    return OK;
}

static int read_value(const engine *g, const json *j, inputs *in, err *e)
{
    const json *a = json_type(j) == JSON_ARRAY ? json_first(j) : j, *b = a == j ? NULL : json_next(a);
    if (json_type(j) == JSON_OBJECT) return add_ids(json_get(j, "ids"), json_get(j, "types"), in, e);
    if (a != j && json_type(a) == JSON_NUMBER) return add_ids(j, NULL, in, e);
    if (json_type(a) != JSON_STRING || (b && (json_type(b) != JSON_STRING || json_next(b))))
        return err_set(e, ERR_FORMAT, "neither a text, nor two, nor a list of ids");
    span second = span_str(json_str(b, ""));
    return embedding_tokenize(g, span_str(json_str(a, "")), b ? &second : NULL, &in->cut, &in->ids, &in->types, e);
}

/* Line `number` of standard input, to the end of in->ids. */
static int read_line(const engine *g, bool jsonl, span text, size_t number, inputs *in, err *e)
{
    char where[40];
    json *j = NULL;
    snprintf(where, sizeof where, "line %zu", number);
    int rc = jsonl ? json_parse(&j, text, where, e) : OK;
    if (rc) return rc;
    rc = jsonl ? read_value(g, j, in, e) : embedding_tokenize(g, text, NULL, &in->cut, &in->ids, &in->types, e);
    json_free(j);
    return rc ? err_wrap(e, "%s", where) : OK;
}

static int add_line(inputs *in, const inputs *line, err *e)
{
    for (size_t i = 0; i < line->ids.n; i++)
        if (!token_list_add(&in->ids, line->ids.id[i]) || !token_list_add(&in->types, line->types.id[i]))
            return err_memory(e, NULL);
    return inputs_end_line(in, e);
}

/* All lines of standard input; threads share them, and the error of the first bad one counts. */
static int read_lines(const engine *g, bool jsonl, int threads, inputs *in, err *e)
{
    buf text = {0};
    span *line = NULL;
    size_t n = 0, cap = 0, bad = SIZE_MAX;
    int rc = file_read_text(&text, "-", TEXT_MAX, e);
    (void)threads; /* without OpenMP */
    for (span rest = buf_span(&text); !rc && rest.n;) {
        const uint8_t *end = memchr(rest.p, '\n', rest.n);
        size_t used = end ? (size_t)(end - rest.p) : rest.n, cr = !jsonl && used && rest.p[used - 1] == '\r';
        if (!mem_grow((void **)&line, &cap, n + 1, sizeof *line)) rc = err_memory(e, NULL);
        else line[n++] = span_of(rest.p, used - cr);
        used += end != NULL;
        rest = span_of(rest.p + used, rest.n - used);
    }
    inputs *of = rc ? NULL : mem_zero(n, sizeof *of);
    if (!rc && !of) rc = err_memory(e, NULL);
    size_t todo = rc ? 0 : n;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 16)
    for (size_t i = 0; i < todo; i++) {
        err why = {0};
        if (!read_line(g, jsonl, line[i], i + 1, &of[i], &why)) continue;
#pragma omp critical
        if (i < bad) {
            bad = i;
            *e = why;
        }
    }
    if (bad != SIZE_MAX) rc = e->code;
    for (size_t i = 0; i < todo; i++) {
        if (!rc) rc = add_line(in, &of[i], e);
        in->n_cut += of[i].cut;
        inputs_free(&of[i]);
    }
    if (!rc && in->n_cut) log_line(LOG_WARN, "%zu of %zu texts are longer than the model takes: cut", in->n_cut, n);
    mem_free(of);
    mem_free(line);
    buf_free(&text);
    return rc;
}

/* ---- writing */

typedef struct sink {
    npy *file; /* NULL: print */
    int64_t width;
    buf line;
} sink;

static void add_row(buf *to, const float *row, int64_t n)
{
    for (int64_t i = 0; i < n; i++) buf_printf(to, "%c%.9g", i ? ',' : '[', (double)row[i]);
    buf_byte(to, ']');
}

static int end_line(sink *s, err *e)
{
    buf_byte(&s->line, '\n');
    if (s->line.bad) return err_memory(e, NULL);
    log_progress_wipe();
    fwrite(s->line.p, 1, s->line.n, stdout);
    s->line.n = 0;
    return ferror(stdout) ? err_set(e, ERR_IO, "standard output: not all of it could be written") : OK;
}

static int put_rows(sink *s, const float *rows, size_t n, err *e)
{
    if (s->file) return npy_write(s->file, rows, (int64_t)n, e);
    int rc = OK;
    for (size_t i = 0; i < n && !rc; i++) {
        add_row(&s->line, rows + (int64_t)i * s->width, s->width);
        rc = end_line(s, e);
    }
    return rc;
}

/* ---- one vector for each text */

static void show_progress(void *ctx, size_t done)
{
    const size_t *of = ctx; /* texts before this block; all texts */
    log_progress("embed", "texts", of[0] + done, of[1]);
}

static int embed_block(engine *g, const inputs *in, size_t first, size_t n, bool scores, sink *s, err *e)
{
    float *rows = mem_array(n * (size_t)s->width, sizeof *rows);
    embedding_job *jobs = mem_zero(n, sizeof *jobs);
    size_t of[2] = {first, in->n};
    int rc = rows && jobs ? OK : err_set(e, ERR_MEMORY, "out of memory for %zu vectors", n);
    for (size_t i = 0; i < n && !rc; i++) {
        size_t at = in->start[first + i];
        float *row = rows + i * (size_t)s->width;
        jobs[i] = (embedding_job){
            .ids = in->ids.id + at, .types = in->types.id + at, .n = in->start[first + i + 1] - at};
        *(scores ? &jobs[i].scores : &jobs[i].vector) = row;
    }
    if (!rc) rc = embedding_run(g, jobs, n, show_progress, of, e);
    if (!rc) rc = put_rows(s, rows, n, e);
    mem_free(rows);
    mem_free(jobs);
    return rc;
}

/* ---- a vector for each token */

typedef struct token_rows {
    sink *s;
    bool normalize;
} token_rows;

static int put_token_rows(void *ctx, const float *rows, int64_t first, int64_t n, err *e)
{
    const token_rows *t = ctx;
    int64_t width = t->s->width;
    float *own = (float *)rows; /* the caller's buffer of this text */
    for (int64_t i = 0; i < n && t->normalize; i++) {
        double sum = 0;
        for (int64_t k = 0; k < width; k++) sum += (double)own[i * width + k] * own[i * width + k];
        for (int64_t k = 0; k < width; k++) own[i * width + k] = (float)(own[i * width + k] / fmax(sqrt(sum), 1e-12));
    }
    if (t->s->file) return npy_write(t->s->file, own, n, e);
    for (int64_t i = 0; i < n; i++) {
        buf_byte(&t->s->line, first + i ? ',' : '[');
        add_row(&t->s->line, own + i * width, width);
    }
    return OK;
}

static int embed_tokens(engine *g, const inputs *in, bool normalize, sink *s, err *e)
{
    token_rows t = {s, normalize};
    int rc = OK;
    for (size_t i = 0; i < in->n && !rc; i++) {
        size_t at = in->start[i];
        rc = engine_eval(g, in->ids.id + at, in->start[i + 1] - at, engine_describe(g)->n_layer, put_token_rows, &t, e);
        if (!rc && !s->file) {
            buf_byte(&s->line, ']');
            rc = end_line(s, e);
        }
        log_progress("embed", "texts", i + 1, in->n);
    }
    return rc;
}

static int embed_all(engine *g, const embed_options *o, const inputs *in, bool tokens, err *e)
{
    const engine_info *i = engine_describe(g);
    sink s = {.width = tokens ? engine_width(g, i->n_layer) : o->own.scores ? i->n_score : i->n_pooled};
    int64_t rows = (int64_t)(tokens ? in->ids.n : in->n);
    int rc = o->own.output ? npy_create(&s.file, o->own.output, rows, s.width, e) : OK;
    if (rc) return rc;
    if (tokens) rc = embed_tokens(g, in, o->how.normalize, &s, e);
    for (size_t at = 0; at < in->n && !tokens && !rc; at += BLOCK)
        rc = embed_block(g, in, at, in->n - at < BLOCK ? in->n - at : BLOCK, o->own.scores, &s, e);
    if (rc) npy_abandon(s.file);
    else if (s.file) rc = npy_commit(s.file, e);
    buf_free(&s.line);
    return rc;
}

static int run_embed(const invocation *v, err *e)
{
    const embed_options *o = v->options;
    bool tokens = o->how.pooling && strcmp(o->how.pooling, "none") == 0;
    if (tokens && o->own.scores) return err_set(e, ERR_USAGE, "--pooling none means nothing to --scores");
    engine_options model = o->model;
    embed_flags_apply(v, &o->how, &model);
    if (!model.max_batch) model.max_batch = BATCH;
    engine *g;
    inputs in = {0};
    int rc = auto_open(&g, &model, e);
    if (rc) return rc;
    if (!tokens) rc = embedding_check(g, o->own.scores, o->how.pooling != NULL, e);
    if (!rc) rc = read_lines(g, o->own.jsonl, engine_describe(g)->threads, &in, e);
    if (!rc && in.n == 0) rc = err_set(e, ERR_USAGE, "there are no lines on standard input");
    if (!rc) rc = embed_all(g, o, &in, tokens, e);
    inputs_free(&in);
    engine_close(g);
    return rc;
}

const command command_embed = {
    .name = "embed",
    .summary = "texts to vectors, one a line",
    .flags = groups,
    .options_size = sizeof(embed_options),
    .notes = "Reads texts from standard input, one a line, and prints one JSON array of numbers for each. Pooling,\n"
             "maximum length and prompt are those of the model's sentence-transformers files; without such files a\n"
             "vector is the mean of all states, at length 1. Decoders embed with --pooling last or mean.\n"
             "\n"
             "  inferflow embed --model ./all-MiniLM-L6-v2 <sentences.txt\n"
             "  inferflow embed --model ./bge-small -o vectors.npy <sentences.txt\n",
    .run = run_embed,
};
