/* vector_rig.h - the tiny models of tests/vectors/models: what is expected of each, and the logits that the engine
 * computes. */
#pragma once
#include "measure/evaluate.h"
#include "rows_rig.h"

enum { GREEDY = 32 };
static const char *const vectors = "tests/vectors/models";

typedef struct expected {
    json *file;
    const json *rows, *logits; /* position; list of floats each */
    int32_t ids[IDS_MAX], enc[IDS_MAX], greedy[GREEDY];
    size_t n_ids, n_enc, n_prompt; /* n_enc 0: no encoder in front of the decoder */
    double tolerance;
} expected;

static inline void expected_read(expected *x, const char *folder)
{
    char path[512];
    err e = {0};
    snprintf(path, sizeof path, "%s/expect.json", folder);
    assert_ok(json_read(&x->file, path, 1 << 20, &e), &e);
    x->n_ids = read_ids(json_get(x->file, "ids"), x->ids, IDS_MAX);
    x->n_enc = read_ids(json_get(x->file, "enc"), x->enc, IDS_MAX);
    assert_int_equal(read_ids(json_get(x->file, "greedy"), x->greedy, GREEDY), GREEDY);
    x->n_prompt = (size_t)json_int(json_get(x->file, "prompt"), 0);
    x->rows = json_get(x->file, "rows");
    x->logits = json_get(x->file, "logits");
    x->tolerance = json_num(json_get(x->file, "tolerance"), 0);
    assert_true(x->n_ids >= 64 && x->n_prompt > 0 && x->tolerance > 0);
}

/* All logits of the test sequence; free .at. Closes the engine. */
static inline table logits_of(engine *g, const expected *x)
{
    err e = {0};
    table t = table_new(engine_describe(g)->n_vocab, IDS_MAX);
    const query q = {.ids = x->ids, .n_ids = x->n_ids, .enc_ids = x->enc, .n_enc = x->n_enc};
    assert_ok(engine_eval_query(g, &q, -1, keep_rows, &t, &e), &e);
    assert_int_equal(t.rows, x->n_ids);
    engine_close(g);
    return t;
}

typedef struct inputs {
    int32_t ids[IDS_MAX], types[IDS_MAX], enc[IDS_MAX];
    size_t n_ids, n_enc;
} inputs;

static inline inputs inputs_read(const char *folder)
{
    inputs x = {.n_ids = 0};
    char path[512];
    json *file;
    err e = {0};
    snprintf(path, sizeof path, "%s/expect.json", folder);
    assert_ok(json_read(&file, path, 1 << 20, &e), &e);
    x.n_ids = read_ids(json_get(file, "ids"), x.ids, IDS_MAX);
    x.n_enc = read_ids(json_get(file, "enc"), x.enc, IDS_MAX);
    read_ids(json_get(file, "types"), x.types, IDS_MAX);
    json_free(file);
    return x;
}

/* All of the text. */
static inline query inputs_query(const inputs *x)
{
    return (query){.ids = x->ids, .n_ids = x->n_ids, .enc_ids = x->enc, .n_enc = x->n_enc};
}
