/* fuzz_receipt.c - receipts of texts (engine/receipt.h), of the model and arithmetic that the seeds name, with forms
 * over the vocabulary of the engine made for tests. */
#include "tests/fake_engine.h"

#include "engine/receipt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const fingerprint here = {.model = "aa", .kv = "i16", .arithmetic = "bb", .exact = true};
    static const engine_options model;
    static engine *g;
    json *from;
    receipt r;
    if (!g && auto_open(&g, &model, &(err){0})) abort();
    if (json_parse(&from, span_of(data, n), "receipt", &(err){0})) return 0;
    if (receipt_read(&r, from, &here, g, &(err){0}) == OK) receipt_free(&r);
    json_free(from);
    return 0;
}
