/* receipt.c - see receipt.h. */
#include "engine/receipt.h"

#include "base/mem.h"
#include "sample/form_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECEIPT_VERSION = 1 };

/* Members of "params" besides those of sample_param_rows. */
#define ROW(field, kind, ...) PARAM_ROW(query, field, kind, __VA_ARGS__)
static const param own_rows[] = {
    ROW(max_tokens, PARAM_INT, .max = 1 << 30),
    ROW(min_tokens, PARAM_INT, .max = 1 << 30),
    ROW(ignore_eos, PARAM_BOOL),
    {.key = "choice", .type = PARAM_INT, .offset = offsetof(query, sample.choice), .max = 1 << 20},
};
static const size_t own_count = sizeof own_rows / sizeof *own_rows;

/* ---- writing */

int receipt_check_query(const fingerprint *f, const query *q, err *e)
{
    if (q->beams > 1) return err_set(e, ERR_USAGE, "receipt: the tokens of a beam search are not drawn");
    return f->exact ? OK
                    : err_set(e, ERR_USAGE,
                              "receipt: with --exact off, or --draft-accept exact or pool, a text does not follow from "
                              "its seed");
}

static void add_ids(json *to, const char *key, const int32_t *ids, size_t n)
{
    json *list = json_add_array(to, key);
    for (size_t i = 0; i < n; i++) json_add_int(list, NULL, ids[i]);
}

static void add_allowed(json *list, const query *q, int32_t n_vocab)
{
    for (int32_t id = 0; id < n_vocab; id++)
        if (q->allowed[id / 64] >> id % 64 & 1) json_add_int(list, NULL, id);
}

/* The form of the text, as requests have it. */
static void add_form(json *to, grammar *form)
{
    span source;
    const form_kind kind = (form_kind)grammar_source(form, &source);
    json *parsed = NULL;
    buf text = {0};
    if (form_kind_is_json(kind)) {
        if (json_parse(&parsed, source, "the form", NULL) == OK) json_add_copy(to, form_kind_name(kind), parsed);
    } else if (json_quote(&text, source)) {
        json_add_raw(to, form_kind_name(kind), buf_cstr(&text));
    }
    json_free(parsed);
    buf_free(&text);
}

/* Sequences, each as its length, then its ids. */
static void add_sequences(json *list, const int32_t *of, int32_t n)
{
    for (int32_t i = 0; i < n; i += of[i] + 1) add_ids(list, NULL, of + i + 1, (size_t)of[i]);
}

static void add_params(json *to, const engine *g, const query *q)
{
    query cut = *q;
    const engine_info *of = engine_describe(g);
    const int64_t room = of->ctx - (int64_t)q->n_ids;
    if (cut.max_tokens > room) cut.max_tokens = room;
    param_json(sample_param_rows, sample_param_count, &q->sample, to);
    param_json(own_rows, own_count, &cut, to);
    if (q->n_stop_ids) add_ids(to, "stop_token_ids", q->stop_ids, (size_t)q->n_stop_ids);
    if (q->n_allowed) add_allowed(json_add_array(to, "allowed_token_ids"), q, of->n_vocab);
    if (q->constraint) add_form(to, q->constraint);
    json *bad = q->n_bad || of->n_bans ? json_add_array(to, "bad_words_ids") : NULL;
    add_sequences(bad, q->bad, q->n_bad);
    add_sequences(bad, of->bans, of->n_bans); /* the model's own */
    json *bias = q->n_bias ? json_add_object(to, "logit_bias") : NULL;
    for (int32_t i = 0; i < q->n_bias; i++) {
        char id[12];
        snprintf(id, sizeof id, "%d", q->bias[i].id);
        json_add_num(bias, id, (double)q->bias[i].bias);
    }
}

void receipt_write(json *to, const engine *g, const fingerprint *f, const query *q, const int32_t *ids, size_t n,
                   receipt_end how)
{
    json_add_int(to, "version", RECEIPT_VERSION);
    json_add_str(to, "model", f->model);
    json_add_str(to, "arithmetic", f->arithmetic);
    json_add_str(to, "kv", f->kv);
    add_ids(to, "prompt_ids", q->ids, q->n_ids);
    if (q->n_enc) add_ids(to, "encoder_ids", q->enc_ids, q->n_enc);
    add_ids(to, "ids", ids, n);
    add_params(json_add_object(to, "params"), g, q);
    json_add_str(to, "finish_reason", how == RECEIPT_LENGTH ? "length" : "stop");
    if (how == RECEIPT_STOP_TEXT) json_add_bool(to, "stop_text", true);
}

/* ---- reading */

static int read_ids(const json *from, const char *key, token_list *out, err *e)
{
    const json *list = json_get(from, key);
    if (json_type(list) != JSON_ARRAY) return err_set(e, ERR_FORMAT, "%s: an array of ids is missing", key);
    for (const json *m = json_first(list); m; m = json_next(m)) {
        const int64_t id = json_int(m, -1);
        if (id < 0 || id > INT32_MAX) return err_set(e, ERR_FORMAT, "%s: element %zu is no token id", key, out->n);
        if (!token_list_add(out, (int32_t)id)) return err_memory(e, "a receipt");
    }
    return OK;
}

static int read_allowed(receipt *r, const json *params, int32_t n_vocab, err *e)
{
    token_list ids = {0};
    const int32_t words = (n_vocab + 63) / 64;
    int rc = read_ids(params, "allowed_token_ids", &ids, e);
    r->allowed = mem_zero((size_t)words, sizeof *r->allowed);
    if (!rc && !r->allowed) rc = err_memory(e, "a receipt");
    for (size_t i = 0; i < ids.n && !rc; i++)
        if (ids.id[i] < n_vocab) r->allowed[ids.id[i] / 64] |= UINT64_C(1) << ids.id[i] % 64;
    r->q.allowed = r->allowed;
    r->q.n_allowed = words;
    token_list_free(&ids);
    return rc;
}

/* Sequences, each as its length, then its ids. */
static int read_bad(receipt *r, const json *from, err *e)
{
    for (const json *m = json_first(from); m; m = json_next(m)) {
        if (!token_list_add(&r->bad, (int32_t)json_count(m))) return err_memory(e, NULL);
        for (const json *id = json_first(m); id; id = json_next(id))
            if (!token_list_add(&r->bad, (int32_t)json_int(id, -1))) return err_memory(e, NULL);
    }
    return OK;
}

static int read_bias(receipt *r, const json *from, err *e)
{
    const size_t n = json_count(from);
    if (json_type(from) != JSON_OBJECT)
        return err_set(e, ERR_FORMAT, "params.logit_bias: an object of ids is expected");
    r->bias = mem_array(n + 1, sizeof *r->bias);
    if (!r->bias) return err_memory(e, "a receipt");
    for (const json *m = json_first(from); m; m = json_next(m)) {
        char *end;
        const long long id = strtoll(json_key(m), &end, 10);
        if (*end || id < 0 || id > INT32_MAX || json_type(m) != JSON_NUMBER)
            return err_set(e, ERR_FORMAT, "params.logit_bias: \"%.40s\" is no token id", json_key(m));
        r->bias[r->q.n_bias++] = (logit_bias){(int32_t)id, (float)json_num(m, 0)};
    }
    r->q.bias = r->bias;
    return OK;
}

static int read_form(receipt *r, const json *m, engine *g, err *e)
{
    const form_kind kind = form_kind_named(json_key(m));
    const token_trie *t = engine_token_trie(g, e);
    buf text = {0};
    err why = {0};
    if (!t) return ERR_USAGE;
    if (form_kind_is_json(kind) ? !json_print(&text, m, false) : !buf_str(&text, json_str(m, "")))
        err_memory(&why, NULL);
    else form_compile(&r->form, kind, buf_span(&text), t, &why);
    buf_free(&text);
    r->q.constraint = r->form;
    return why.code ? err_set(e, why.code, "params.%s: %s", json_key(m), why.msg) : OK;
}

/* A parameter as text, so that whole numbers of 64 bits stay exact. */
static int read_param(receipt *r, const json *m, err *e)
{
    const param *row = param_find(sample_param_rows, sample_param_count, json_key(m));
    void *into = row ? (void *)&r->q.sample : (void *)&r->q;
    if (!row) row = param_find(own_rows, own_count, json_key(m));
    if (!row) return err_set(e, ERR_FORMAT, "params: \"%.60s\" is not known to this version", json_key(m));
    if (json_type(m) == JSON_NULL || row->type == PARAM_TEXT) return OK; /* a strategy: its parameters are all there */
    buf text = {0};
    err why = {0};
    int64_t whole;
    const bool ok = json_int64(m, &whole) ? buf_printf(&text, "%" PRId64, whole) : json_print(&text, m, false);
    int rc = ok ? param_set(row, into, buf_cstr(&text), json_key(m), &why) : err_memory(&why, NULL);
    buf_free(&text);
    return rc ? err_set(e, ERR_FORMAT, "params: %s", why.msg) : OK;
}

static int read_member(receipt *r, const json *m, const json *params, engine *g, err *e)
{
    const char *key = json_key(m);
    return !strcmp(key, "logit_bias")          ? read_bias(r, m, e)
           : !strcmp(key, "stop_token_ids")    ? read_ids(params, key, &r->stops, e)
           : !strcmp(key, "allowed_token_ids") ? read_allowed(r, params, engine_describe(g)->n_vocab, e)
           : !strcmp(key, "bad_words_ids")     ? read_bad(r, m, e)
           : form_kind_named(key)              ? read_form(r, m, g, e)
                                               : read_param(r, m, e);
}

static int read_params(receipt *r, const json *from, engine *g, err *e)
{
    int rc = json_type(from) == JSON_OBJECT ? OK : err_set(e, ERR_FORMAT, "params: an object is missing");
    param_defaults(sample_param_rows, sample_param_count, &r->q.sample);
    for (const json *m = json_first(from); m && !rc; m = json_next(m)) rc = read_member(r, m, from, g, e);
    return rc;
}

static int check_fingerprint(const json *from, const fingerprint *here, err *e)
{
    const char *of = json_str(json_get(from, "model"), ""), *arithmetic = json_str(json_get(from, "arithmetic"), "");
    const char *kv = json_str(json_get(from, "kv"), here->kv);
    if (strcmp(of, here->model))
        return err_set(e, ERR_FORMAT, "another model: the receipt is of %.40s, this is %s", of, here->model);
    if (!strcmp(arithmetic, here->arithmetic)) return OK;
    if (strcmp(kv, here->kv))
        return err_set(e, ERR_FORMAT, "other arithmetic: the receipt is of --kv %.16s, this is %s", kv, here->kv);
    return err_set(e, ERR_FORMAT, "other arithmetic: the receipt is of %.40s, this is %s", arithmetic,
                   here->arithmetic);
}

int receipt_read(receipt *out, const json *from, const fingerprint *f, engine *g, err *e)
{
    *out = (receipt){.q = {.n_logprobs = -1, .beams = 1, .length_penalty = 1}};
    if (json_int(json_get(from, "version"), 0) != RECEIPT_VERSION)
        return err_set(e, ERR_FORMAT, "this is no receipt of version %d", RECEIPT_VERSION);
    int rc = check_fingerprint(from, f, e);
    if (!rc) rc = read_ids(from, "prompt_ids", &out->prompt, e);
    if (!rc && json_get(from, "encoder_ids")) rc = read_ids(from, "encoder_ids", &out->encoder, e);
    if (!rc) rc = read_ids(from, "ids", &out->ids, e);
    if (!rc) rc = read_params(out, json_get(from, "params"), g, e);
    const char *finish = json_str(json_get(from, "finish_reason"), "");
    if (!rc && strcmp(finish, "stop") && strcmp(finish, "length"))
        rc = err_set(e, ERR_FORMAT, "finish_reason: \"stop\" or \"length\" is expected");
    out->ended = !strcmp(finish, "stop") && !json_bool(json_get(from, "stop_text"), false);
    out->q.ids = out->prompt.id, out->q.n_ids = out->prompt.n;
    out->q.enc_ids = out->encoder.id, out->q.n_enc = out->encoder.n;
    out->q.stop_ids = out->stops.id, out->q.n_stop_ids = (int32_t)out->stops.n;
    out->q.bad = out->bad.id, out->q.n_bad = (int32_t)out->bad.n;
    if (rc) receipt_free(out);
    return rc;
}

void receipt_free(receipt *r)
{
    token_list_free(&r->prompt);
    token_list_free(&r->encoder);
    token_list_free(&r->ids);
    token_list_free(&r->stops);
    token_list_free(&r->bad);
    mem_free(r->bias);
    mem_free(r->allowed);
    grammar_drop(r->form);
    *r = (receipt){0};
}
