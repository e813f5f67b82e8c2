/* cmd_eval.c - `inferflow eval`: logits, hidden states, perplexity, divergence from another model, importance of
 * weights. Keys and values are float32 unless --kv says otherwise, so that results compare with other programs. */
#include "app/app.h"
#include "app/ids.h"
#include "app/tokenizer_choice.h"
#include "base/file.h"
#include "base/log.h"
#include "engine/decoder_prompt.h"
#include "measure/auto_open.h"
#include "measure/divergence.h"
#include "measure/evaluate.h"
#include "measure/importance_collect.h"
#include "measure/perplexity.h"
#include "io/npy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { WINDOW = 512 };
static const size_t TEXT_MAX = (size_t)1 << 30;

typedef struct eval_flags {
    const char *ids, *decoder_ids, *prompt, *file, *out, *against;
    int64_t layer, stride;
} eval_flags;

typedef struct eval_options {
    eval_flags own;
    engine_options model;
} eval_options;

static const param rows[] = {
    {"ids", PARAM_TEXT, offsetof(eval_flags, ids), NULL, 0, 0, "IDS", "token ids: 1,2,3 or @FILE", NULL, PATH_IDS},
    {"decoder_ids", PARAM_TEXT, offsetof(eval_flags, decoder_ids), NULL, 0, 0, "IDS",
     "encoder-decoders: input of the decoder (default: its start); the other inputs are the encoder's", NULL, PATH_IDS},
    {"prompt", PARAM_TEXT, offsetof(eval_flags, prompt), NULL, 0, 0, "TEXT", "text instead of ids", "p"},
    {"file", PARAM_TEXT, offsetof(eval_flags, file), NULL, 0, 0, "FILE", "text from a file (\"-\": standard input)",
     "f", PATH_FILE},
    {"output", PARAM_TEXT, offsetof(eval_flags, out), NULL, 0, 0, "FILE",
     "output file: .npy for logits and hidden states, .gguf for importance", "o", PATH_OUT},
    {"against", PARAM_TEXT, offsetof(eval_flags, against), NULL, 0, 0, "PATH",
     "divergence: the reference model, as --model, or its spec (.ini, .json)", NULL, PATH_MODEL},
    {"layer", PARAM_INT, offsetof(eval_flags, layer), "-1", -1, 1 << 20, "L",
     "hidden: 0 is the input of the first layer, L the output of layer L; -1 the last, after the final norm", NULL},
    {"stride", PARAM_INT, offsetof(eval_flags, stride), "0", 0, 1 << 24, "N",
     "perplexity, divergence: overlapping windows, one every N tokens (the method of Hugging Face)", NULL},
};
static const size_t n_rows = sizeof rows / sizeof *rows;

static const flag_group flags[] = {
    {"Evaluation", rows, &n_rows, offsetof(eval_options, own)}, MODEL_FLAGS(eval_options, model), {0}};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The ids to evaluate, from --ids or from text. */
static int read_ids(const engine *g, const eval_flags *f, token_list *out, err *e)
{
    if (f->ids) return ids_parse(out, f->ids, e);
    const tokenizer *t = engine_tokenizer(g);
    if (!t) return tokenizer_missing(g, ", or --ids", e);
    if (f->prompt) return tokenizer_encode(t, span_str(f->prompt), TOKENIZE_SPECIAL, out, e);
    buf text = {0};
    int rc = file_read(&text, f->file, TEXT_MAX, e);
    if (!rc) rc = tokenizer_encode(t, buf_span(&text), TOKENIZE_SPECIAL, out, e);
    buf_free(&text);
    return rc;
}

static int read_decoder_ids(const engine *g, const eval_flags *f, const token_list *enc, token_list *out, err *e)
{
    if (!f->decoder_ids && engine_describe(g)->n_label) return engine_shifted_ids(g, enc->id, enc->n, false, out, e);
    return f->decoder_ids ? ids_parse(out, f->decoder_ids, e) : engine_decoder_ids(g, NULL, out, e);
}

static int write_rows(void *ctx, const float *values, int64_t first, int64_t n, err *e)
{
    (void)first;
    return npy_write(ctx, values, n, e);
}

static int eval_rows(engine *g, const eval_flags *f, const token_list *enc, const token_list *ids, bool hidden,
                     bool as_json, err *e)
{
    npy *file;
    int n_layer = engine_describe(g)->n_layer, layer = !hidden ? -1 : f->layer < 0 ? n_layer : (int)f->layer;
    if (layer > n_layer) return err_set(e, ERR_USAGE, "--layer %d: the model has %d layers", layer, n_layer);
    if (ids->n == 0) return err_set(e, ERR_USAGE, "there are no tokens to evaluate");
    int rc = npy_create(&file, f->out, (int64_t)ids->n, engine_width(g, layer), e);
    if (rc) return rc;
    const query q = {.ids = ids->id, .n_ids = ids->n, .enc_ids = enc->id, .n_enc = enc->n};
    rc = engine_eval_query(g, &q, layer, write_rows, file, e);
    if (rc) npy_abandon(file);
    else rc = npy_commit(file, e);
    if (rc || !as_json) return rc;
    json *j = json_new_object();
    json_add_str(j, "file", f->out);
    json_add_int(j, "tokens", (int64_t)ids->n);
    json_add_int(j, "width", engine_width(g, layer));
    rc = app_print_json(j, e);
    json_free(j);
    return rc;
}

static void show_progress(void *ctx, int64_t done, int64_t total)
{
    const char *const *what = ctx;
    log_progress(*what, "tokens", (unsigned long long)done, (unsigned long long)total);
}

/* The beginning-of-text token that the tokenizer puts in front of texts; -1 when it puts none. */
static int32_t bos_added(const engine *g, const eval_flags *f, const token_list *ids)
{
    const tokenizer *t = engine_tokenizer(g);
    int32_t bos = t ? tokenizer_role(t, TOKEN_BOS) : -1;
    return !f->ids && bos >= 0 && ids->n && ids->id[0] == bos ? bos : -1;
}

/* Windows of --ctx tokens, at most `most`. */
static windows windows_of(const engine *g, const eval_flags *f, const engine_options *m, int most,
                          const token_list *ids, const char **what)
{
    int64_t window = m->ctx ? m->ctx : WINDOW;
    return (windows){.window = window < most ? window : most,
                     .stride = f->stride,
                     .bos = bos_added(g, f, ids),
                     .progress = show_progress,
                     .ctx = what};
}

static int eval_perplexity(engine *g, const eval_flags *f, const engine_options *m, const token_list *ids, bool as_json,
                           err *e)
{
    const char *what = "perplexity";
    windows w = windows_of(g, f, m, engine_describe(g)->ctx, ids, &what);
    perplexity_result r;
    double start = now();
    int rc = perplexity_measure(g, ids->id, ids->n, &w, &r, e);
    if (rc) return rc;
    log_progress_end(); /* the last window need not end with the text */
    if (!as_json) {
        const bool exact = m->act && !strcmp(m->act, "f32");
        printf("perplexity %.4f over %lld tokens (mean negative log-likelihood %.6f), windows of %lld, %.1f s\n",
               exp(r.nll), (long long)r.tokens, r.nll, (long long)w.window, now() - start);
        printf("± %.4f, the standard error; inputs of quantized matrices are %s\n", exp(r.nll) * r.error,
               exact ? "floats" : "rounded to 8 bits (--act f32 keeps them)");
        return 0;
    }
    json *j = json_new_object();
    json_add_num(j, "perplexity", exp(r.nll));
    json_add_num(j, "nll", r.nll);
    json_add_num(j, "perplexity_error", exp(r.nll) * r.error);
    json_add_int(j, "tokens", r.tokens);
    json_add_num(j, "seconds", now() - start);
    rc = app_print_json(j, e);
    json_free(j);
    return rc;
}

/* Every line of a file as a text of its own, cut to `most` tokens: encoders see a text whole. */
static int each_line(const engine *g, const char *path, int64_t most, const char *what, window_fn fn, void *ctx, err *e)
{
    const tokenizer *t = engine_tokenizer(g);
    if (!t) return tokenizer_missing(g, ", or --ids", e);
    buf text = {0};
    token_list ids = {0};
    int rc = file_read(&text, path, TEXT_MAX, e);
    for (size_t at = 0, end; !rc && at < text.n; at = end + 1) {
        const uint8_t *newline = memchr(text.p + at, '\n', text.n - at);
        end = newline ? (size_t)(newline - text.p) : text.n;
        ids.n = 0;
        if (end > at) rc = tokenizer_encode(t, span_of(text.p + at, end - at), TOKENIZE_SPECIAL, &ids, e);
        if (!rc && ids.n) rc = fn(ctx, ids.id, (int64_t)ids.n < most ? (int64_t)ids.n : most, 0, e);
        log_progress(what, "bytes", end < text.n ? end + 1 : end, text.n);
    }
    token_list_free(&ids);
    buf_free(&text);
    return rc;
}

static void add_perplexity(json *j, const char *key, double nll)
{
    if (isnan(nll)) json_add_null(j, key);
    else json_add_num(j, key, exp(nll));
}

static int print_divergence(const divergence_result *r, bool as_json, err *e)
{
    log_progress_end();
    if (!as_json) {
        printf("mean KL %.6g, 99 %% of tokens below %.6g, same most likely token %.2f %%, %lld tokens\n", r->kl_mean,
               r->kl_p99, 100 * r->top1_agreement, (long long)r->tokens);
        if (!isnan(r->nll)) printf("perplexity %.4f, reference %.4f\n", exp(r->nll), exp(r->nll_reference));
        return OK;
    }
    json *j = json_new_object();
    json_add_num(j, "kl_mean", r->kl_mean);
    json_add_num(j, "kl_p99", r->kl_p99);
    json_add_num(j, "top1_agreement", r->top1_agreement);
    add_perplexity(j, "perplexity", r->nll);
    add_perplexity(j, "perplexity_reference", r->nll_reference);
    json_add_int(j, "tokens", r->tokens);
    int rc = app_print_json(j, e);
    json_free(j);
    return rc;
}

/* The reference runs as its file stores it, with float activations and a float cache: flags about precision apply to
 * the tested model only. Where that one is on the CPU alone, this is too. */
static int open_reference(engine **out, const eval_flags *f, const engine *tested, const engine_options *m, err *e)
{
    const char *dot = strrchr(f->against, '.');
    bool is_spec = dot && (!strcmp(dot, ".ini") || !strcmp(dot, ".json"));
    engine_options o = {.model = is_spec ? NULL : f->against,
                        .spec = is_spec ? f->against : NULL,
                        .no_gpu = !strcmp(engine_describe(tested)->devices, "cpu"),
                        .act = "f32",
                        .kv = "f32",
                        .ctx = m->ctx,
                        .threads = m->threads,
                        .chunk = m->chunk,
                        .max_batch = 1};
    int rc = engine_open(out, &o, e);
    return rc ? err_wrap(e, "--against") : OK;
}

static int eval_divergence(engine *g, const eval_flags *f, const engine_options *m, const token_list *ids, bool as_json,
                           err *e)
{
    engine *reference;
    divergence *d = NULL;
    divergence_result r;
    const char *what = "divergence";
    int rc = open_reference(&reference, f, g, m, e);
    if (rc) return rc;
    rc = divergence_open(&d, g, reference, e);
    int a = engine_describe(g)->ctx, b = engine_describe(reference)->ctx, most = a < b ? a : b;
    if (!rc && engine_describe(g)->generates) {
        windows w = windows_of(g, f, m, most, ids, &what);
        rc = windows_each(g, ids->id, ids->n, &w, divergence_add, d, e);
    } else if (!rc && f->stride) {
        rc = err_set(e, ERR_USAGE, "--stride is for models that continue a text; this one is an encoder");
    } else if (!rc) {
        rc = f->file ? each_line(g, f->file, most, what, divergence_add, d, e)
                     : divergence_add(d, ids->id, (int64_t)ids->n, 0, e);
    }
    if (!rc) rc = divergence_get(d, &r, e);
    if (!rc) rc = print_divergence(&r, as_json, e);
    divergence_close(d);
    engine_close(reference);
    return rc;
}

static int eval_importance(engine *g, const eval_flags *f, const engine_options *m, const token_list *ids, err *e)
{
    importance_sum *s;
    const char *what = "importance";
    if (ids->n == 1 && bos_added(g, f, ids) >= 0)
        return err_set(e, ERR_USAGE, "the text is empty: nothing can be measured on it");
    int most = engine_describe(g)->ctx, rc = importance_sum_open(&s, g, e);
    if (rc) return rc;
    if (engine_describe(g)->generates && (int64_t)ids->n > most) {
        windows w = windows_of(g, f, m, most, ids, &what);
        rc = windows_each(g, ids->id, ids->n, &w, importance_sum_add, s, e);
    } else if (f->file && !engine_describe(g)->generates) {
        rc = each_line(g, f->file, most, what, importance_sum_add, s, e);
    } else {
        rc = importance_sum_add(s, ids->id, (int64_t)ids->n, 0, e);
    }
    if (!rc) rc = importance_sum_write(s, f->out, e);
    importance_sum_close(s);
    return rc;
}

typedef enum { EVAL_LOGITS, EVAL_HIDDEN, EVAL_PERPLEXITY, EVAL_DIVERGENCE, EVAL_IMPORTANCE, EVAL_COUNT } eval_kind;
static const char *const kind_name[EVAL_COUNT] = {"logits", "hidden", "perplexity", "divergence", "importance"};

static int check_flags(eval_kind kind, const eval_flags *f, err *e)
{
    bool rows_out = kind == EVAL_LOGITS || kind == EVAL_HIDDEN, has_file = rows_out || kind == EVAL_IMPORTANCE;
    if (kind == EVAL_COUNT)
        return err_set(e, ERR_USAGE, "eval measures one of logits, hidden, perplexity, divergence and importance");
    if ((f->ids != NULL) + (f->prompt != NULL) + (f->file != NULL) != 1)
        return err_set(e, ERR_USAGE, "give one of --ids, --prompt and --file");
    const char *stray = kind != EVAL_HIDDEN && f->layer >= 0    ? "--layer"
                        : has_file && f->stride                 ? "--stride"
                        : !has_file && f->out                   ? "-o"
                        : kind != EVAL_DIVERGENCE && f->against ? "--against"
                                                                : NULL;
    if (stray) return err_set(e, ERR_USAGE, "%s means nothing to eval %s", stray, kind_name[kind]);
    if (has_file && !f->out)
        return err_set(e, ERR_USAGE, "-o %s says where the result goes", rows_out ? "F.npy" : "F.gguf");
    if (kind == EVAL_DIVERGENCE && !f->against)
        return err_set(e, ERR_USAGE, "--against PATH says which model this one is compared with");
    return OK;
}

static int read_input(const engine *g, eval_kind kind, const eval_flags *f, token_list *enc, token_list *ids, err *e)
{
    bool pair = engine_describe(g)->n_enc_vocab > 0;
    if (!pair && f->decoder_ids)
        return err_set(e, ERR_USAGE, "--decoder-ids: this model has no encoder, --ids is all it takes");
    if (pair && kind >= EVAL_PERPLEXITY)
        return err_set(e, ERR_USAGE, "%s is of models with one input; this one has an encoder in front of its decoder",
                       kind_name[kind]);
    if (kind >= EVAL_DIVERGENCE && f->file && !engine_describe(g)->generates) return OK; /* read line by line */
    int rc = read_ids(g, f, pair ? enc : ids, e);
    return rc || !pair ? rc : read_decoder_ids(g, f, enc, ids, e);
}

static int run_eval(const invocation *v, err *e)
{
    const eval_options *o = v->options;
    eval_kind kind = EVAL_LOGITS;
    while (kind < EVAL_COUNT && strcmp(v->operand[0], kind_name[kind]) != 0) kind++;
    int rc = check_flags(kind, &o->own, e);
    if (rc) return rc;
    engine_options model = o->model;
    if (!model.kv) model.kv = "f32";
    if (kind == EVAL_IMPORTANCE) model.act = "f32"; /* of the inputs of matrices, not of their codes */
    model.max_batch = 1;
    token_list ids = {0}, enc = {0};
    engine *g;
    rc = auto_open(&g, &model, e);
    if (rc) return rc;
    rc = read_input(g, kind, &o->own, &enc, &ids, e);
    if (!rc && kind == EVAL_PERPLEXITY) rc = eval_perplexity(g, &o->own, &model, &ids, v->json, e);
    else if (!rc && kind == EVAL_IMPORTANCE) rc = eval_importance(g, &o->own, &model, &ids, e);
    else if (!rc && kind == EVAL_DIVERGENCE) rc = eval_divergence(g, &o->own, &model, &ids, v->json, e);
    else if (!rc) rc = eval_rows(g, &o->own, &enc, &ids, kind == EVAL_HIDDEN, v->json, e);
    token_list_free(&ids);
    token_list_free(&enc);
    engine_close(g);
    return rc;
}

const command command_eval = {
    .name = "eval",
    .summary = "logits, hidden states, perplexity, divergence from another model, importance",
    .operands = "logits|hidden|perplexity|divergence|importance",
    .operand_min = 1,
    .operand_max = 1,
    .prints_json = true,
    .flags = flags,
    .options_size = sizeof(eval_options),
    .notes = "logits, hidden  write a float32 matrix as .npy, one row per token\n"
             "perplexity      cuts the text into windows of --ctx tokens (512), scores the second half of each\n"
             "divergence      compares --model, held as the flags say, with --against, which runs as its file\n"
             "                stores it, with float activations; of an encoder each line of the file is a text\n"
             "importance      writes the mean squares of the inputs of each matrix, for quantize --importance\n"
             "                (or llama.cpp: an imatrix)\n",
    .run = run_eval,
};
