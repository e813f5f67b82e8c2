/* api_embeddings.c - POST /v1/embeddings of the OpenAI API: one text, several, or token ids; numbers or base64;
 * `dimensions` keeps the first ones, of unit length again if they were. */
#include "measure/embedding.h"

#include "base/base64.h"
#include "base/mem.h"
#include "serve/api_list.h"
#include "serve/fields.h"
#include "serve/pooled_job.h"

#include <math.h>
#include <string.h>

enum { INPUTS_MAX = 2048 };

typedef struct embedding_fields {
    const char *model, *encoding_format;
    const json *input;
    int64_t dimensions;
} embedding_fields;

#define AT(member) .offset = offsetof(embedding_fields, member)
static const field fields[] = {
    {.name = "input", .type = FIELD_NODE, AT(input)},
    {.name = "model", .type = FIELD_TEXT, AT(model)},
    {.name = "encoding_format", .type = FIELD_TEXT, AT(encoding_format)},
    {.name = "dimensions", .type = FIELD_INT, .min = 1, .max = 1 << 24, AT(dimensions)},
    {.name = "user", .type = FIELD_IGNORE},
    {NULL},
};

/* Parts of the request that the reply needs. */
typedef struct embedding_reply {
    int32_t dimensions;
    bool base64;
} embedding_reply;

/* ---- the reply */

static double length_of(const float *v, int32_t n)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++) sum += (double)v[i] * v[i];
    return sqrt(sum);
}

static bool vector_write(buf *to, const float *v, int32_t width, const embedding_reply *r)
{
    double scale = 1;
    if (r->dimensions < width && fabs(length_of(v, width) - 1) < 1e-3) {
        double length = length_of(v, r->dimensions);
        scale = length > 0 ? 1 / length : 1;
    }
    if (r->base64) buf_byte(to, '"');
    for (int32_t i = 0; i < r->dimensions; i++) {
        float value = (float)(v[i] * scale);
        if (!r->base64) buf_printf(to, "%c%.9g", i ? ',' : '[', (double)value);
    }
    if (!r->base64) return buf_byte(to, ']');
    uint8_t bytes[3 * 4 * 64]; /* little-endian floats, a multiple of 3 bytes at a time */
    size_t n = 0;
    for (int32_t i = 0; i < r->dimensions; i++) {
        float value = (float)(v[i] * scale);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        for (int k = 0; k < 4; k++) bytes[n++] = (uint8_t)(bits >> 8 * k);
        if (n == sizeof bytes || i + 1 == r->dimensions) {
            base64_encode(span_of(bytes, n), to);
            n = 0;
        }
    }
    return buf_byte(to, '"');
}

static bool write_reply(buf *to, const pooled_job *j)
{
    buf_str(to, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < j->n; i++) {
        buf_printf(to, "%s{\"object\":\"embedding\",\"index\":%zu,\"embedding\":", i ? "," : "", i);
        vector_write(to, j->results + i * (size_t)j->width, j->width, j->own);
        buf_byte(to, '}');
    }
    buf_str(to, "],\"model\":");
    json_quote(to, span_str(server_model_name(j->srv)));
    buf_byte(to, ',');
    pooled_usage_write(to, j);
    return buf_byte(to, '}');
}

/* ---- the request */

static int read_ids(const server *s, const json *list, pooled_input *in, err *e)
{
    int32_t vocab = engine_describe(s->g)->n_vocab;
    for (const json *m = json_first(list); m; m = json_next(m)) {
        int64_t id = json_int(m, -1);
        if (id < 0 || id >= vocab)
            return err_set(e, ERR_USAGE, "input: element %zu is no token id (0 to %d)", in->ids.n, vocab - 1);
        if (!token_list_add(&in->ids, (int32_t)id)) return err_memory(e, NULL);
    }
    if (!in->ids.n) return err_set(e, ERR_USAGE, "input: an empty list");
    int32_t ctx = engine_describe(s->g)->ctx;
    if (in->ids.n <= (size_t)ctx) return OK;
    return err_set(e, ERR_LIMIT, "the input has %zu tokens, the context holds %d", in->ids.n, ctx);
}

static int read_input(const server *s, const json *one, pooled_input *in, err *e)
{
    if (json_type(one) == JSON_ARRAY) return read_ids(s, one, in, e);
    if (json_type(one) == JSON_STRING)
        return embedding_tokenize(s->g, span_str(json_str(one, "")), NULL, &in->cut, &in->ids, &in->types, e);
    return err_set(e, ERR_USAGE, "input: expected texts or lists of token ids, got %s", json_type_name(one));
}

/* "text", ["text", ...], [ids] or [[ids], ...]. */
static int read_inputs(server *s, const json *input, pooled_job **out, err *e)
{
    bool single = json_type(input) == JSON_STRING || json_type(json_first(input)) == JSON_NUMBER;
    size_t n = single ? 1 : json_count(input);
    if (!single && json_type(input) != JSON_ARRAY)
        return err_set(e, ERR_USAGE, "input: %s", input ? "expected a text, texts or token ids" : "missing");
    if (n == 0 || n > INPUTS_MAX)
        return err_set(e, ERR_USAGE, "input: %zu inputs; 1 to %d are possible", n, INPUTS_MAX);
    int rc = pooled_job_new(out, s, n, false, e);
    const json *one = single ? input : json_first(input);
    for (size_t i = 0; i < n && !rc; i++, one = json_next(one)) rc = read_input(s, one, &(*out)->in[i], e);
    return rc;
}

static bool check_fields(const server *s, exchange *x, const embedding_fields *f)
{
    const char *form = f->encoding_format;
    int32_t most = engine_describe(s->g)->n_pooled;
    err e = {0};
    if (!exchange_check_model(s, x, f->model)) return false;
    if (embedding_check(s->g, false, s->model && s->model->pooling, &e)) {
        reply_error(x, 400, "model", "no_embeddings", "%s", e.msg);
        return false;
    }
    if (form && strcmp(form, "float") != 0 && strcmp(form, "base64") != 0) {
        reply_error(x, 400, "encoding_format", "invalid_value",
                    "encoding_format: \"%.40s\" is not one of float, base64", form);
        return false;
    }
    if (f->dimensions <= most) return true;
    reply_error(x, 400, "dimensions", "out_of_range", "dimensions: %lld; this model's vectors have %d",
                (long long)f->dimensions, most);
    return false;
}

static void handle_embeddings(server *s, exchange *x)
{
    embedding_fields f = {0};
    err e = {0};
    pooled_job *j = NULL;
    json *body = body_read(s, x, &f);
    if (body && check_fields(s, x, &f)) {
        int rc = read_inputs(s, f.input, &j, &e);
        if (!rc && !(j->own = mem_zero(1, sizeof(embedding_reply)))) rc = err_memory(&e, NULL);
        if (rc) {
            pooled_reply_err(x, "input", &e);
            pooled_job_drop(j);
        } else {
            *(embedding_reply *)j->own = (embedding_reply){f.dimensions ? (int32_t)f.dimensions : j->width,
                                                           f.encoding_format && f.encoding_format[0] == 'b'};
            j->write = write_reply;
            pooled_job_start(j, x);
        }
    }
    json_free(body);
}

const route route_embeddings = {
    .method = "POST", .path = "/v1/embeddings", .needs_engine = true, .fields = fields, .handle = handle_embeddings};
