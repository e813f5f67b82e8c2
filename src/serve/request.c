/* request.c - see request.h. Everything a client can get wrong is found here, before the engine hears of it. */
#include "serve/request.h"

#include "engine/decoder_prompt.h"
#include "engine/receipt.h"
#include "sample/strategy.h"
#include "serve/chat_request.h"
#include "serve/reply_form.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool out_of_memory(exchange *x)
{
    reply_error(x, 500, NULL, NULL, "out of memory");
    return false;
}

static bool add_stop(exchange *x, request *r, const json *v)
{
    const char *text = json_str(v, NULL);
    if (!text) return field_wrong_type(x, "stop", "a string or an array of strings", v);
    if (!*text || strlen(text) > REQUEST_STOP_BYTES) {
        reply_error(x, 400, "stop", "invalid_value", "stop: a stop string has 1 to %d bytes", REQUEST_STOP_BYTES);
        return false;
    }
    r->made.stop[r->made.n_stop++] = text;
    return true;
}

static bool read_stop(server *s, exchange *x, request *r)
{
    (void)s;
    const json *v = r->asked.stop;
    if (json_type(v) == JSON_NULL) return true;
    if (json_type(v) != JSON_ARRAY) return add_stop(x, r, v);
    if (json_count(v) > REQUEST_STOPS_MAX) {
        reply_error(x, 400, "stop", "invalid_value", "stop: at most %d strings", REQUEST_STOPS_MAX);
        return false;
    }
    for (const json *m = json_first(v); m; m = json_next(m))
        if (!add_stop(x, r, m)) return false;
    return true;
}

/* {"50256": -100}: ids as keys. */
static bool read_bias(server *s, exchange *x, request *r)
{
    const int32_t n_vocab = engine_describe(s->g)->n_vocab;
    const json *v = r->asked.bias;
    if (json_type(v) == JSON_NULL) return true;
    if (json_type(v) != JSON_OBJECT) return field_wrong_type(x, "logit_bias", "an object", v);
    size_t n = json_count(v);
    if (n > REQUEST_BIAS_MAX) {
        reply_error(x, 400, "logit_bias", "invalid_value", "logit_bias: at most %d entries", REQUEST_BIAS_MAX);
        return false;
    }
    r->made.bias = mem_array(n, sizeof *r->made.bias);
    if (!r->made.bias) return out_of_memory(x);
    for (const json *m = json_first(v); m; m = json_next(m)) {
        char *end;
        const char *key = json_key(m);
        long id = strtol(key, &end, 10);
        double bias = json_num(m, 1e9);
        if (*key < '0' || *key > '9' || *end || id >= n_vocab) {
            reply_error(x, 400, "logit_bias", "invalid_value", "logit_bias: \"%.40s\" is no token id (0 to %d)", key,
                        n_vocab - 1);
            return false;
        }
        if (!(bias >= -100 && bias <= 100)) {
            reply_error(x, 400, "logit_bias", "out_of_range",
                        "logit_bias: the bias of %ld must be a number from -100 to 100", id);
            return false;
        }
        r->made.bias[r->made.n_bias++] = (logit_bias){(int32_t)id, (float)bias};
    }
    return true;
}

static bool read_stream_options(server *s, exchange *x, request *r)
{
    (void)s;
    static const field rows[] = {
        {.name = "include_usage", .type = FIELD_BOOL, .offset = offsetof(request, made.include_usage)}, {NULL}};
    const json *v = r->asked.stream_options;
    if (json_type(v) == JSON_NULL) return true;
    if (json_type(v) != JSON_OBJECT) return field_wrong_type(x, "stream_options", "an object", v);
    if (!r->streams) {
        reply_error(x, 400, "stream_options", "invalid_value", "stream_options needs \"stream\": true");
        return false;
    }
    return fields_read(x, rows, false, v, r);
}

/* Rules between fields. */
static bool check_together(server *s, exchange *x, request *r)
{
    (void)s;
    if (r->max_tokens == 0 && !r->echo && r->prompt_logprobs < 0 && !r->reply->may_be_empty) {
        reply_error(x, 400, "max_tokens", "invalid_value", "max_tokens: 0 is possible only with \"echo\": true");
        return false;
    }
    if (r->best_of && r->best_of < r->n) {
        reply_error(x, 400, "best_of", "out_of_range", "best_of: at least n, which is %" PRId64, r->n);
        return false;
    }
    if (r->best_of > 1 && r->streams) {
        reply_error(x, 400, "best_of", "unsupported", "best_of: not with stream; the best is known at the end");
        return false;
    }
    if (r->min_tokens > r->max_tokens) {
        reply_error(x, 400, "min_tokens", "invalid_value", "min_tokens is larger than max_tokens");
        return false;
    }
    return true;
}

static bool read_form(server *s, exchange *x, request *r)
{
    return form_fields_read(s, x, &r->asked.form, &r->made.form);
}

/* Beams give whole texts: fields that say something of single draws or tokens do not go with them. */
static bool check_beams(server *s, exchange *x, request *r)
{
    const struct {
        const char *field;
        bool given;
    } others[] = {{"stream", r->streams},         {"best_of", r->best_of > 1},
                  {"logprobs", r->logprobs >= 0}, {"prompt_logprobs", r->prompt_logprobs >= 0},
                  {"logit_bias", r->made.n_bias}, {"allowed_token_ids", r->made.n_allowed},
                  {"bad_words", r->made.bad.n},   {form_fields_given(&r->asked.form), r->made.form}};
    const int most = engine_describe(s->g)->max_batch;
    if (r->beams == 1) return true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (!others[i].given) continue;
        reply_error(x, 400, others[i].field, "unsupported", "%s: not with beams; they give whole texts",
                    others[i].field);
        return false;
    }
    if (r->beams > most)
        reply_error(x, 400, "beams", "out_of_range", "beams: at most %d sequences run at once here", most);
    else if (r->n > r->beams) reply_error(x, 400, "n", "out_of_range", "n: at most beams, which is %" PRId64, r->beams);
    return r->beams <= most && r->n <= r->beams;
}

/* true, false or "never". */
static bool read_early_stopping(server *s, exchange *x, request *r)
{
    const json *v = r->asked.early_stopping;
    const char *word = json_str(v, "never");
    (void)s;
    if (json_type(v) > JSON_BOOL && (json_type(v) != JSON_STRING || strcmp(word, "never") != 0))
        return field_wrong_type(x, "early_stopping", "true, false or \"never\"", v);
    r->made.early_stopping = json_type(v) == JSON_STRING ? BEAM_STOP_NEVER
                             : json_bool(v, false)       ? BEAM_STOP_FIRST
                                                         : BEAM_STOP_BETTER;
    return true;
}

static bool read_ids(exchange *x, const char *name, const json *array, token_list *out, int32_t n_vocab)
{
    out->id = mem_array(json_count(array), sizeof *out->id);
    if (!out->id) return out_of_memory(x);
    out->cap = json_count(array);
    for (const json *m = json_first(array); m; m = json_next(m)) {
        int64_t id = json_int(m, -1);
        if (json_type(m) != JSON_NUMBER) return field_wrong_type(x, name, "token ids in an array of numbers", m);
        if (id < 0 || id >= n_vocab) {
            reply_error(x, 400, name, "invalid_value", "%s: %.15g is no token id (0 to %d)", name, json_num(m, 0),
                        n_vocab - 1);
            return false;
        }
        out->id[out->n++] = (int32_t)id;
    }
    return true;
}

/* A list of ids; field `name` is absent or an array. */
static bool read_id_list(exchange *x, const char *name, const json *v, token_list *out, int32_t n_vocab)
{
    if (json_type(v) == JSON_NULL) return true;
    if (json_type(v) != JSON_ARRAY) return field_wrong_type(x, name, "an array of token ids", v);
    return read_ids(x, name, v, out, n_vocab);
}

static bool read_stop_ids(server *s, exchange *x, request *r)
{
    if (json_count(r->asked.stop_ids) > REQUEST_WORDS_MAX) {
        reply_error(x, 400, "stop_token_ids", "invalid_value", "stop_token_ids: at most %d", REQUEST_WORDS_MAX);
        return false;
    }
    return read_id_list(x, "stop_token_ids", r->asked.stop_ids, &r->made.stop_ids, engine_describe(s->g)->n_vocab);
}

static bool read_allowed(server *s, exchange *x, request *r)
{
    const int32_t n_vocab = engine_describe(s->g)->n_vocab;
    token_list ids = {0};
    bool good = read_id_list(x, "allowed_token_ids", r->asked.allowed, &ids, n_vocab);
    if (good && json_type(r->asked.allowed) == JSON_ARRAY) {
        const size_t words = ((size_t)n_vocab + 63) / 64;
        r->made.allowed = mem_zero(words, sizeof *r->made.allowed);
        good = r->made.allowed ? true : out_of_memory(x);
        for (size_t i = 0; good && i < ids.n; i++) r->made.allowed[ids.id[i] / 64] |= (uint64_t)1 << ids.id[i] % 64;
        r->made.n_allowed = (int32_t)words;
        if (good && !ids.n) {
            reply_error(x, 400, "allowed_token_ids", "invalid_value", "allowed_token_ids: at least one id");
            good = false;
        }
    }
    mem_free(ids.id);
    return good;
}

/* The ids of a word, alone or behind a blank; appended to r->made.bad. *n: how many. */
static bool add_bad_word(server *s, exchange *x, request *r, const char *text, size_t *n)
{
    const size_t at = r->made.bad.n;
    err e = {0};
    int rc = token_list_add(&r->made.bad, 0) ? OK : err_memory(&e, NULL);
    if (!rc) rc = tokenizer_encode(engine_target_tokenizer(s->g), span_str(text), 0, &r->made.bad, &e);
    if (rc) {
        reply_err(x, "bad_words", &e);
        return false;
    }
    *n = r->made.bad.n - at - 1;
    r->made.bad.id[at] = (int32_t)*n;
    if (!*n) r->made.bad.n = at;
    return true;
}

/* A word must not come at the beginning of a text nor behind a blank. Where the ids behind a blank end in those of the
 * word alone, these say it already. */
static bool read_bad_word(server *s, exchange *x, request *r, const json *v)
{
    char text[REQUEST_STOP_BYTES + 2] = " ";
    const char *word = json_str(v, NULL);
    if (!word) return field_wrong_type(x, "bad_words", "an array of strings", v);
    while (*word == ' ') word++;
    if (!*word || strlen(word) > REQUEST_STOP_BYTES) {
        reply_error(x, 400, "bad_words", "invalid_value", "bad_words: a word has 1 to %d bytes", REQUEST_STOP_BYTES);
        return false;
    }
    size_t plain, spaced, at = r->made.bad.n;
    memcpy(text + 1, word, strlen(word) + 1);
    if (!add_bad_word(s, x, r, word, &plain)) return false;
    const size_t second = r->made.bad.n;
    if (!add_bad_word(s, x, r, text, &spaced)) return false;
    const int32_t *same = r->made.bad.id + r->made.bad.n - plain;
    if (plain && spaced >= plain && !memcmp(same, r->made.bad.id + at + 1, plain * sizeof *same))
        r->made.bad.n = second;
    return true;
}

static bool read_bad_words(server *s, exchange *x, request *r)
{
    const json *v = r->asked.bad_words;
    if (json_type(v) == JSON_NULL) return true;
    if (json_type(v) != JSON_ARRAY) return field_wrong_type(x, "bad_words", "an array of strings", v);
    if (!engine_tokenizer(s->g) || json_count(v) > REQUEST_WORDS_MAX) {
        reply_error(x, 400, "bad_words", "invalid_value", "bad_words: at most %d, and not without a tokenizer",
                    REQUEST_WORDS_MAX);
        return false;
    }
    for (const json *m = json_first(v); m; m = json_next(m))
        if (!read_bad_word(s, x, r, m)) return false;
    return true;
}

static bool read_text(server *s, exchange *x, const request *r, const json *v, prompt *p)
{
    const tokenizer *t = engine_tokenizer(s->g);
    const char *text = json_str(v, "");
    err e = {0};
    if (!t) {
        reply_error(x, 400, "prompt", "no_tokenizer", "prompt: this model has no tokenizer; send token ids");
        return false;
    }
    p->text = mem_str(text);
    if (!p->text) return out_of_memory(x);
    const int flags = (r->text.adds_special ? TOKENIZE_SPECIAL : 0) | (r->text.parses_special ? TOKENIZE_PARSE : 0);
    if (tokenizer_encode(t, span_str(text), flags, &p->ids, &e)) {
        reply_err(x, "prompt", &e);
        return false;
    }
    const int32_t bos = engine_describe(s->g)->bos; /* the text may have its own */
    if (flags & TOKENIZE_SPECIAL && p->ids.n > 1 && bos >= 0 && p->ids.id[0] == bos && p->ids.id[1] == bos)
        memmove(p->ids.id, p->ids.id + 1, --p->ids.n * sizeof *p->ids.id);
    return true;
}

bool request_check_length(server *s, exchange *x, prompt *p)
{
    const engine_info *info = engine_describe(s->g);
    if (p->ids.n == 0 && info->bos >= 0 && !info->n_enc_vocab) {
        void *id = p->ids.id;
        if (!mem_grow(&id, &p->ids.cap, 1, sizeof *p->ids.id)) return out_of_memory(x);
        p->ids.id = id;
        p->ids.id[p->ids.n++] = info->bos;
    }
    if (p->ids.n == 0) {
        reply_error(x, 400, "prompt", "invalid_value", "prompt: empty, and this model has no token to begin with");
        return false;
    }
    if (p->ids.n > (size_t)info->ctx) {
        reply_error(x, 400, "prompt", "context_length_exceeded",
                    "the prompt has %zu tokens; the context of this model holds %d", p->ids.n, info->ctx);
        return false;
    }
    return true;
}

/* The prompt is the encoder's input; the decoder starts from `decoder_prompt`: a text, or ids with the start token. */
static bool read_decoder_prompt(server *s, exchange *x, const json *v, prompt *p)
{
    err e = {0};
    p->enc = p->ids;
    p->ids = (token_list){0};
    mem_free(p->text);
    p->text = NULL;
    if (json_type(v) == JSON_ARRAY && json_count(v))
        return read_ids(x, "decoder_prompt", v, &p->ids, engine_describe(s->g)->n_vocab);
    if (json_type(v) != JSON_NULL && json_type(v) != JSON_STRING)
        return field_wrong_type(x, "decoder_prompt", "a string or an array of token ids", v);
    if (!engine_decoder_ids(s->g, json_str(v, NULL), &p->ids, &e)) return true;
    reply_err(x, "decoder_prompt", &e);
    return false;
}

static bool read_prompt(server *s, exchange *x, const request *r, const json *v, prompt *p)
{
    const engine_info *info = engine_describe(s->g);
    bool encoder = info->n_enc_vocab > 0;
    bool good = json_type(v) == JSON_STRING ? read_text(s, x, r, v, p)
                : json_type(v) == JSON_ARRAY
                    ? read_ids(x, "prompt", v, &p->ids, encoder ? info->n_enc_vocab : info->n_vocab)
                    : field_wrong_type(x, "prompt", "a string or an array of token ids", v);
    if (!encoder && good && r->text.decoder_prompt) {
        reply_error(x, 400, "decoder_prompt", "unsupported",
                    "decoder_prompt: this model has no encoder, prompt is all it takes");
        return false;
    }
    return good && request_check_length(s, x, p) && (!encoder || read_decoder_prompt(s, x, r->text.decoder_prompt, p));
}

bool request_read_prompts(server *s, exchange *x, request *r)
{
    const json *v = r->text.prompt;
    if (!v) {
        reply_error(x, 400, "prompt", "missing_field", "prompt is missing");
        return false;
    }
    bool many = json_type(v) == JSON_ARRAY && json_type(json_first(v)) != JSON_NUMBER;
    size_t n = many ? json_count(v) : 1;
    if (n == 0 || n > REQUEST_PROMPTS_MAX || n * (size_t)r->made.drawn > REQUEST_PROMPTS_MAX) {
        reply_error(x, 400, "prompt", "invalid_value", "prompt: an array of 1 to %d prompts, times n",
                    REQUEST_PROMPTS_MAX);
        return false;
    }
    r->made.prompts = mem_zero(n, sizeof *r->made.prompts);
    if (!r->made.prompts) return out_of_memory(x);
    r->made.n_prompts = n;
    if (!many) return read_prompt(s, x, r, v, r->made.prompts);
    prompt *p = r->made.prompts;
    for (const json *m = json_first(v); m; m = json_next(m))
        if (!read_prompt(s, x, r, m, p++)) return false;
    return true;
}

/* Fields override what the strategy says, wherever they stand. */
static bool read_strategy(server *s, exchange *x, request *r)
{
    err e = {0};
    if (!json_str(json_get(r->body, "strategy"), NULL)) return true;
    if (strategy_apply(&r->sample, "strategy", &e)) {
        reply_error(x, 400, "strategy", "invalid_value", "%s", e.msg);
        return false;
    }
    const bool good = fields_read(x, r->rows, s->o->lenient, r->body, r);
    r->sample.strategy = NULL; /* it has done its work */
    return good;
}

static bool check_receipt(server *s, exchange *x, request *r)
{
    const query q = {.beams = (int32_t)r->beams};
    err e = {0};
    if (!r->receipt || receipt_check_query(&s->here, &q, &e) == OK) return true;
    reply_error(x, 400, "receipt", "unsupported", "%s", e.msg);
    return false;
}

static bool check_model(server *s, exchange *x, request *r) { return exchange_check_model(s, x, r->asked.model); }

static void set_defaults(const server *s, const exchange *x, const field *rows, request *r)
{
    const reply_form *reply = x->endpoint->reply;
    *r = (request){.reply = reply,
                   .rows = rows,
                   .n = 1,
                   .beams = 1,
                   .length_penalty = 1,
                   .max_tokens = reply->max_tokens ? reply->max_tokens : INT32_MAX,
                   .returns_ids = reply->returns_ids,
                   .logprobs = -1,
                   .prompt_logprobs = -1,
                   .sample = s->o->sample,
                   .text = {.adds_special = true, .parses_special = true},
                   .chat = {.generation_prompt = true, .parallel_calls = true}};
}

/* False: the reply is in x. */
typedef bool request_step(server *s, exchange *x, request *r);

/* All that follows the plain fields. Of several mistakes the first in this order is told. */
static bool make_request(server *s, exchange *x, request *r)
{
    static request_step *const steps[] = {
        check_model,    read_stop, read_stream_options, check_together, read_bias,     read_stop_ids, read_allowed,
        read_bad_words, read_form, read_early_stopping, check_beams,    read_strategy, check_receipt};
    if (r->max_tokens < 0) r->max_tokens = INT32_MAX; /* up to the context */
    if (r->reply->adapt && !r->reply->adapt(x, r)) return false;
    r->made.drawn = r->best_of ? r->best_of : r->n;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (!steps[i](s, x, r)) return false;
    sample_seed_draw(&r->sample);
    exchange_salt(s, x, r->asked.cache_salt, r->made.salt);
    r->made.owner = exchange_owner(s, x);
    return r->reply->read_prompts(s, x, r);
}

bool request_read(server *s, exchange *x, request *r)
{
    set_defaults(s, x, x->endpoint->fields, r);
    r->body = body_read(s, x, r);
    return r->body && make_request(s, x, r);
}

bool request_read_chat(server *s, exchange *x, json *chat, json *original, request *r)
{
    set_defaults(s, x, chat_fields, r);
    r->body = chat;
    r->original = original;
    return fields_read(x, chat_fields, false, chat, r) && make_request(s, x, r);
}

void request_free(request *r)
{
    request_made *m = &r->made;
    for (size_t i = 0; i < m->n_prompts; i++) {
        mem_free(m->prompts[i].ids.id);
        mem_free(m->prompts[i].enc.id);
        mem_free(m->prompts[i].text);
    }
    mem_free(m->prompts);
    mem_free(m->bias);
    mem_free(m->stop_ids.id);
    mem_free(m->bad.id);
    mem_free(m->allowed);
    grammar_drop(m->form);
    json_free(r->body);
    json_free(r->original);
    *r = (request){0};
}
