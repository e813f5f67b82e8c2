/* api_rerank.c - POST /v1/rerank, as Cohere and Jina have it: how relevant documents are to a query, by a
 * cross-encoder.
 *
 * A head of one class gives sigmoid(score), as CrossEncoder of sentence-transformers does; of two classes the second is
 * "relevant". */
#include "measure/embedding.h"

#include "base/mem.h"
#include "serve/api_list.h"
#include "serve/fields.h"
#include "serve/pooled_job.h"

#include <math.h>
#include <stdlib.h>

enum { DOCUMENTS_MAX = 4096 };

typedef struct rerank_fields {
    const char *model, *query;
    const json *documents;
    int64_t top_n;
    bool return_documents;
} rerank_fields;

#define AT(member) .offset = offsetof(rerank_fields, member)
static const field fields[] = {
    {.name = "query", .type = FIELD_TEXT, AT(query)},
    {.name = "documents", .alias = "texts", .type = FIELD_NODE, AT(documents)},
    {.name = "model", .type = FIELD_TEXT, AT(model)},
    {.name = "top_n", .alias = "top_k", .type = FIELD_INT, .min = 1, .max = 1 << 24, AT(top_n)},
    {.name = "return_documents", .type = FIELD_BOOL, AT(return_documents)},
    {.name = "user", .type = FIELD_IGNORE},
    {NULL},
};

/* Parts of the request that the reply needs. */
typedef struct rerank_reply {
    json *body; /* owns the documents */
    const json *documents;
    size_t top_n;
    bool return_documents;
} rerank_reply;

typedef struct ranked {
    size_t index;
    double relevance;
} ranked;

static void clear_reply(void *own) { json_free(((rerank_reply *)own)->body); }

static double relevance_of(const float *scores, int32_t n)
{
    double margin = n == 1 ? scores[0] : (double)scores[1] - scores[0];
    return 1 / (1 + exp(-margin));
}

static int by_relevance(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->relevance != y->relevance) return x->relevance < y->relevance ? 1 : -1;
    return x->index < y->index ? -1 : 1;
}

/* A document is a text, or an object with a text. */
static const char *text_of(const json *document)
{
    if (json_type(document) == JSON_OBJECT) document = json_get(document, "text");
    return json_type(document) == JSON_STRING ? json_str(document, "") : NULL;
}

static bool write_reply(buf *to, const pooled_job *j)
{
    const rerank_reply *r = j->own;
    ranked *list = mem_array(j->n, sizeof *list);
    if (!list) return false;
    for (size_t i = 0; i < j->n; i++) list[i] = (ranked){i, relevance_of(j->results + i * (size_t)j->width, j->width)};
    qsort(list, j->n, sizeof *list, by_relevance);
    buf_str(to, "{\"object\":\"list\",\"model\":");
    json_quote(to, span_str(server_model_name(j->srv)));
    buf_str(to, ",\"results\":[");
    for (size_t i = 0; i < j->n && i < r->top_n; i++) {
        buf_printf(to, "%s{\"index\":%zu,\"relevance_score\":%.9g", i ? "," : "", list[i].index, list[i].relevance);
        if (r->return_documents) {
            buf_str(to, ",\"document\":{\"text\":");
            json_quote(to, span_str(text_of(json_at(r->documents, list[i].index))));
            buf_byte(to, '}');
        }
        buf_byte(to, '}');
    }
    mem_free(list);
    buf_str(to, "],");
    pooled_usage_write(to, j);
    return buf_byte(to, '}');
}

static int read_pairs(server *s, const rerank_fields *f, pooled_job **out, err *e)
{
    size_t n = json_count(f->documents), i = 0;
    if (!f->query) return err_set(e, ERR_USAGE, "query: missing");
    if (json_type(f->documents) != JSON_ARRAY || n == 0 || n > DOCUMENTS_MAX)
        return err_set(e, ERR_USAGE, "documents: expected a list of 1 to %d texts", DOCUMENTS_MAX);
    int rc = pooled_job_new(out, s, n, true, e);
    for (const json *d = json_first(f->documents); d && !rc; d = json_next(d), i++) {
        pooled_input *in = &(*out)->in[i];
        const char *text = text_of(d);
        if (!text) return err_set(e, ERR_USAGE, "documents: element %zu is no text", i);
        span second = span_str(text);
        rc = embedding_tokenize(s->g, span_str(f->query), &second, &in->cut, &in->ids, &in->types, e);
    }
    return rc;
}

static bool check_model(const server *s, exchange *x)
{
    int32_t n = engine_describe(s->g)->n_score;
    err e = {0};
    int rc = embedding_check(s->g, true, false, &e);
    if (!rc && n > 2) rc = err_set(&e, ERR_USAGE, "this model tells %d classes apart, not what is relevant", n);
    if (rc) reply_error(x, 400, "model", "no_scores", "%s", e.msg);
    return rc == OK;
}

static void handle_rerank(server *s, exchange *x)
{
    rerank_fields f = {0};
    err e = {0};
    pooled_job *j = NULL;
    json *body = body_read(s, x, &f);
    if (body && exchange_check_model(s, x, f.model) && check_model(s, x)) {
        int rc = read_pairs(s, &f, &j, &e);
        if (!rc && !(j->own = mem_zero(1, sizeof(rerank_reply)))) rc = err_memory(&e, NULL);
        if (!rc) {
            *(rerank_reply *)j->own = (rerank_reply){body, f.documents, f.top_n ? (size_t)f.top_n : j->n,
                                                     f.return_documents};
            j->clear = clear_reply;
            j->write = write_reply;
            pooled_job_start(j, x);
            return;
        }
        pooled_reply_err(x, f.query ? "documents" : "query", &e);
        pooled_job_drop(j);
    }
    json_free(body);
}

const route route_rerank = {
    .method = "POST", .path = "/v1/rerank", .needs_engine = true, .fields = fields, .handle = handle_rerank};
