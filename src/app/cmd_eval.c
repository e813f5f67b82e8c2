/* cmd_eval.c - `inferflow eval`: what a model computes, as numbers: logits, hidden states, perplexity. Keys and values are kept in
 * float32 unless --kv says otherwise, so that results compare with other programs. */
#include "app/app.h"
#include "app/ids.h"
#include "base/file.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/perplexity.h"
#include "io/npy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { WINDOW = 512 };
static const size_t TEXT_MAX = (size_t)1 << 30;

typedef struct eval_flags {
    const char *ids, *decoder_ids, *prompt, *file, *out;
    int64_t layer, stride;
} eval_flags;

typedef struct eval_options {
    eval_flags own;
    engine_options model;
} eval_options;

static const param rows[] = {
    {"ids", PARAM_TEXT, offsetof(eval_flags, ids), NULL, 0, 0, "IDS", "token ids: 1,2,3 or @FILE", NULL},
    {"decoder_ids", PARAM_TEXT, offsetof(eval_flags, decoder_ids), NULL, 0, 0, "IDS",
     "encoder-decoders: what the decoder reads (default: its start); --ids, --prompt or --file is for the encoder",
     NULL},
    {"prompt", PARAM_TEXT, offsetof(eval_flags, prompt), NULL, 0, 0, "TEXT", "text instead of ids", "p"},
    {"file", PARAM_TEXT, offsetof(eval_flags, file), NULL, 0, 0, "FILE", "text from a file (\"-\": standard input)",
     "f"},
    {"output", PARAM_TEXT, offsetof(eval_flags, out), NULL, 0, 0, "F.npy", "where logits or hidden states go", "o"},
    {"layer", PARAM_INT, offsetof(eval_flags, layer), "-1", -1, 1 << 20, "L",
     "hidden: 0 is what enters the first layer, L what layer L gives; -1 the last, after the final norm", NULL},
    {"stride", PARAM_INT, offsetof(eval_flags, stride), "0", 0, 1 << 24, "N",
     "perplexity: windows overlap and begin every N tokens (the method of Hugging Face)", NULL},
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
    if (!t) return err_set(e, ERR_USAGE, "this model carries no tokenizer: give --tokenizer PATH, or --ids");
    if (f->prompt) return tokenizer_encode(t, span_str(f->prompt), TOKENIZE_SPECIAL, out, e);
    buf text = {0};
    int rc = file_read(&text, f->file, TEXT_MAX, e);
    if (!rc) rc = tokenizer_encode(t, buf_span(&text), TOKENIZE_SPECIAL, out, e);
    buf_free(&text);
    return rc;
}

static int read_decoder_ids(const engine *g, const eval_flags *f, token_list *out, err *e)
{
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
    rc = engine_eval_pair(g, enc->id, enc->n, ids->id, ids->n, layer, write_rows, file, e);
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
    (void)ctx;
    log_progress("perplexity", (unsigned long long)done, (unsigned long long)total);
}

/* The beginning-of-text token that the tokenizer puts in front of texts; -1 when it puts none. */
static int32_t bos_added(const engine *g, const eval_flags *f, const token_list *ids)
{
    const tokenizer *t = engine_tokenizer(g);
    int32_t bos = t ? tokenizer_role(t, TOKEN_BOS) : -1;
    return !f->ids && bos >= 0 && ids->n && ids->id[0] == bos ? bos : -1;
}

static int eval_perplexity(engine *g, const eval_flags *f, const engine_options *m, const token_list *ids, bool as_json,
                           err *e)
{
    int64_t window = m->ctx ? m->ctx : WINDOW;
    if (window > engine_describe(g)->ctx) window = engine_describe(g)->ctx;
    perplexity_options o = {
        .window = window, .stride = f->stride, .bos = bos_added(g, f, ids), .progress = show_progress};
    perplexity_result r;
    double start = now();
    int rc = perplexity_measure(g, ids->id, ids->n, &o, &r, e);
    if (rc) return rc;
    if (!as_json) {
        printf("perplexity %.4f over %lld tokens (mean negative log-likelihood %.6f), windows of %lld, %.1f s\n",
               exp(r.nll), (long long)r.tokens, r.nll, (long long)window, now() - start);
        return 0;
    }
    json *j = json_new_object();
    json_add_num(j, "perplexity", exp(r.nll));
    json_add_num(j, "nll", r.nll);
    json_add_int(j, "tokens", r.tokens);
    json_add_num(j, "seconds", now() - start);
    rc = app_print_json(j, e);
    json_free(j);
    return rc;
}

static int run_eval(const invocation *v, err *e)
{
    const eval_options *o = v->options;
    const char *what = v->operand[0];
    bool logits = !strcmp(what, "logits"), hidden = !strcmp(what, "hidden"), perplexity = !strcmp(what, "perplexity");
    if (!logits && !hidden && !perplexity)
        return err_set(e, ERR_USAGE, "eval %s: there is logits, hidden and perplexity", what);
    if ((o->own.ids != NULL) + (o->own.prompt != NULL) + (o->own.file != NULL) != 1)
        return err_set(e, ERR_USAGE, "give one of --ids, --prompt and --file");
    const char *stray = !hidden && o->own.layer >= 0   ? "--layer"
                        : !perplexity && o->own.stride ? "--stride"
                        : perplexity && o->own.out     ? "-o"
                                                       : NULL;
    if (stray) return err_set(e, ERR_USAGE, "%s means nothing to eval %s", stray, what);
    if (!perplexity && !o->own.out) return err_set(e, ERR_USAGE, "-o F.npy says where the result goes");
    engine_options model = o->model;
    if (!model.kv) model.kv = "f32";
    model.max_batch = 1;
    token_list ids = {0}, enc = {0};
    engine *g;
    int rc = engine_open(&g, &model, e);
    if (rc) return rc;
    bool pair = engine_describe(g)->n_enc_vocab > 0;
    if (!pair && o->own.decoder_ids)
        rc = err_set(e, ERR_USAGE, "--decoder-ids: this model has no encoder, --ids is all it takes");
    if (pair && perplexity)
        rc = err_set(e, ERR_USAGE, "perplexity is of models that continue a text; this one has an encoder");
    if (!rc) rc = read_ids(g, &o->own, pair ? &enc : &ids, e);
    if (!rc && pair) rc = read_decoder_ids(g, &o->own, &ids, e);
    if (!rc)
        rc = perplexity ? eval_perplexity(g, &o->own, &model, &ids, v->json, e)
                        : eval_rows(g, &o->own, &enc, &ids, hidden, v->json, e);
    token_list_free(&ids);
    token_list_free(&enc);
    engine_close(g);
    return rc;
}

const command command_eval = {
    .name = "eval",
    .summary = "logits, hidden states or perplexity of a text",
    .operands = "logits|hidden|perplexity",
    .operand_min = 1,
    .operand_max = 1,
    .prints_json = true,
    .flags = flags,
    .options_size = sizeof(eval_options),
    .notes = "logits and hidden write a float32 matrix, one row per token, as .npy.\n"
             "perplexity cuts the text into windows of --ctx tokens (512) and scores the second half of each.\n",
    .run = run_eval,
};
