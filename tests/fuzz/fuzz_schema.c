/* fuzz_schema.c - JSON schemas: what compiles gives texts that can be completed, and are JSON where they end. */
#include "tests/grammar_vocab.h"

#include "sample/json_schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    json *schema, *made;
    grammar *g;
    err e = {0};
    if (json_parse(&schema, span_of(data, n), "schema", &e)) return 0;
    if (json_schema_compile(&g, schema, rig_trie(), &e)) {
        if (g || !e.msg[0]) abort();
        json_free(schema);
        return 0;
    }
    uint64_t allowed[(RIG_VOCAB + 63) / 64], draw = n;
    grammar_place at = {0};
    grammar_next next = {0};
    int32_t ids[200];
    int64_t k = 0;
    for (; k < 200; k++) {
        if (grammar_follow(g, &at, ids, k, false, allowed, &next, &e)) {
            if (e.code != ERR_LIMIT) abort();
            break;
        }
        if (next.complete) break;
        draw = draw * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        int32_t id = (int32_t)((draw >> 33) % RIG_VOCAB);
        while (!(allowed[id >> 6] >> (id & 63) & 1)) id = (id + 1) % RIG_VOCAB;
        ids[k] = id;
    }
    if (next.complete) {
        const token_trie *t = rig_trie();
        buf text = {0};
        err why = {0};
        for (int64_t i = 0; i < k; i++)
            buf_add(&text, t->bytes + t->start[ids[i]], t->start[ids[i] + 1] - t->start[ids[i]]);
        const int rc = json_parse(&made, buf_span(&text), "text", &why);
        if (rc && !strstr(why.msg, "twice")) abort(); /* names of additional properties may come again */
        if (!rc) json_free(made);
        buf_free(&text);
    }
    grammar_drop(g);
    json_free(schema);
    return 0;
}
