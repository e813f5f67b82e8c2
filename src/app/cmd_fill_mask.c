/* cmd_fill_mask.c - `inferflow fill-mask`: a masked-language model's predictions for the masks of a text. */
#include "app/app.h"
#include "app/tokenizer_choice.h"
#include "base/mem.h"
#include "measure/auto_open.h"
#include "measure/evaluate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MASKS_MAX = 64, TOP_MAX = 1000 };

typedef struct fill_options {
    const char *prompt;
    int64_t top_k;
    engine_options model;
} fill_options;

static const param own_rows[] = {
    {"prompt", PARAM_TEXT, offsetof(fill_options, prompt), NULL, 0, 0, "TEXT",
     "text with [MASK], or with the mask token as the model spells it", "p"},
    {"top_k", PARAM_INT, offsetof(fill_options, top_k), "5", 1, TOP_MAX, "K", "tokens to show for each mask", "k"},
};
static const size_t own_count = sizeof own_rows / sizeof *own_rows;
static const flag_group groups[] = {{"Text", own_rows, &own_count, 0}, MODEL_FLAGS(fill_options, model), {NULL}};

typedef struct guess {
    int32_t id;
    double share; /* probability */
} guess;

typedef struct filling {
    token_list ids;
    size_t mask[MASKS_MAX]; /* positions */
    int n_mask, top_k;
    int32_t n_vocab;
    guess *best; /* [n_mask][top_k], most likely first */
} filling;

/* The best tokens of a row of logits. */
static void rank(const float *row, int32_t n, guess *best, int k)
{
    int have = 0;
    double sum = 0, most = row[0];
    for (int32_t v = 1; v < n; v++) most = row[v] > most ? row[v] : most;
    for (int32_t v = 0; v < n; v++) {
        double e = exp(row[v] - most);
        sum += e;
        if (have == k && !(e > best[k - 1].share)) continue;
        int at = have < k ? have++ : k - 1;
        for (; at > 0 && e > best[at - 1].share; at--) best[at] = best[at - 1];
        best[at] = (guess){v, e};
    }
    for (int i = 0; i < have; i++) best[i].share /= sum;
}

static int on_rows(void *ctx, const float *rows, int64_t first, int64_t n, err *e)
{
    filling *f = ctx;
    (void)e;
    for (int i = 0; i < f->n_mask; i++) {
        int64_t at = (int64_t)f->mask[i] - first;
        if (at >= 0 && at < n) rank(rows + at * f->n_vocab, f->n_vocab, f->best + i * f->top_k, f->top_k);
    }
    return OK;
}

/* The text with every "[MASK]" as the vocabulary spells its mask. */
static bool spell_mask(const char *text, span mask, buf *out)
{
    for (const char *at; (at = strstr(text, "[MASK]")); text = at + 6)
        if (!buf_add(out, text, (size_t)(at - text)) || !buf_add(out, mask.p, mask.n)) return false;
    return buf_str(out, text);
}

static int read_prompt(const engine *g, const char *text, filling *f, err *e)
{
    const tokenizer *t = engine_tokenizer(g);
    if (!t) return tokenizer_missing(g, "", e);
    int32_t mask = tokenizer_role(t, TOKEN_MASK);
    if (mask < 0)
        return err_set(e, ERR_USAGE,
                       "the vocabulary has no mask token: it takes a masked language model, such as BERT");
    buf spelt = {0};
    int rc = spell_mask(text, tokenizer_piece(t, mask), &spelt) ? OK : err_memory(e, NULL);
    if (!rc) rc = tokenizer_encode(t, buf_span(&spelt), TOKENIZE_SPECIAL | TOKENIZE_PARSE, &f->ids, e);
    buf_free(&spelt);
    for (size_t i = 0; i < f->ids.n && !rc; i++) {
        if (f->ids.id[i] != mask) continue;
        if (f->n_mask == MASKS_MAX) return err_set(e, ERR_LIMIT, "more than %d masks", MASKS_MAX);
        f->mask[f->n_mask++] = i;
    }
    if (!rc && f->n_mask == 0) {
        span piece = tokenizer_piece(t, mask);
        rc = err_set(e, ERR_USAGE, "the text has no mask (%.*s)", (int)piece.n, (const char *)piece.p);
    }
    return rc;
}

/* The text with mask i filled in. */
static int sequence(const tokenizer *t, filling *f, int i, int32_t id, buf *out, err *e)
{
    int32_t was = f->ids.id[f->mask[i]];
    f->ids.id[f->mask[i]] = id;
    out->n = 0;
    int rc = tokenizer_decode(t, f->ids.id, f->ids.n, DETOKENIZE_SKIP_SPECIAL, out, e);
    f->ids.id[f->mask[i]] = was;
    return rc;
}

static int print_text(const tokenizer *t, filling *f, err *e)
{
    buf piece = {0}, whole = {0};
    int rc = OK;
    for (int i = 0; i < f->n_mask && !rc; i++) {
        if (f->n_mask > 1) printf("%smask %d\n", i ? "\n" : "", i + 1);
        for (int k = 0; k < f->top_k && !rc; k++) {
            const guess *b = &f->best[i * f->top_k + k];
            piece.n = 0;
            rc = tokenizer_decode(t, &b->id, 1, 0, &piece, e);
            if (!rc) rc = sequence(t, f, i, b->id, &whole, e);
            if (!rc) printf("%.4f  %-14s  %s\n", b->share, buf_cstr(&piece), buf_cstr(&whole));
        }
    }
    buf_free(&piece);
    buf_free(&whole);
    return rc;
}

static void add_text(json *to, const char *key, buf *text)
{
    buf quoted = {0};
    if (json_quote(&quoted, buf_span(text))) json_add_raw(to, key, buf_cstr(&quoted));
    buf_free(&quoted);
}

static int print_json(const tokenizer *t, filling *f, err *e)
{
    json *root = json_new_object(), *masks = json_add_array(root, "masks");
    buf text = {0};
    int rc = OK;
    for (int i = 0; i < f->n_mask && !rc; i++) {
        json *mask = json_add_object(masks, NULL);
        json_add_int(mask, "position", (int64_t)f->mask[i]);
        json *list = json_add_array(mask, "predictions");
        for (int k = 0; k < f->top_k && !rc; k++) {
            const guess *b = &f->best[i * f->top_k + k];
            json *one = json_add_object(list, NULL);
            json_add_int(one, "token", b->id);
            json_add_num(one, "score", b->share);
            text.n = 0;
            rc = tokenizer_decode(t, &b->id, 1, 0, &text, e);
            add_text(one, "token_str", &text);
            if (!rc) rc = sequence(t, f, i, b->id, &text, e);
            add_text(one, "sequence", &text);
        }
    }
    if (!rc) rc = app_print_json(root, e);
    json_free(root);
    buf_free(&text);
    return rc;
}

static int run_fill_mask(const invocation *v, err *e)
{
    const fill_options *o = v->options;
    if (!o->prompt) return err_set(e, ERR_USAGE, "-p TEXT says what to fill in");
    engine_options model = o->model;
    model.max_batch = 1;
    engine *g;
    filling f = {.top_k = (int)o->top_k};
    int rc = auto_open(&g, &model, e);
    if (rc) return rc;
    f.n_vocab = engine_describe(g)->n_vocab;
    if (engine_describe(g)->n_label) {
        engine_close(g);
        return err_set(e, ERR_USAGE, "this model labels tokens, it fills no masks (eval logits gives the labels)");
    }
    if (f.top_k > f.n_vocab) f.top_k = f.n_vocab;
    rc = read_prompt(g, o->prompt, &f, e);
    f.best = mem_zero((size_t)f.n_mask * (size_t)f.top_k + 1, sizeof *f.best);
    if (!rc && !f.best) rc = err_memory(e, NULL);
    if (!rc) rc = engine_eval(g, f.ids.id, f.ids.n, -1, on_rows, &f, e);
    if (!rc) rc = v->json ? print_json(engine_tokenizer(g), &f, e) : print_text(engine_tokenizer(g), &f, e);
    mem_free(f.best);
    token_list_free(&f.ids);
    engine_close(g);
    return rc;
}

const command command_fill_mask = {
    .name = "fill-mask",
    .summary = "the likeliest tokens for each mask of a text",
    .prints_json = true,
    .flags = groups,
    .options_size = sizeof(fill_options),
    .notes = "  inferflow fill-mask --model ./bert-base-uncased -p 'The capital of France is [MASK].'\n",
    .run = run_fill_mask,
};
