/* fuzz_tokenizer_json.c - tokenizer.json. */
#include "fuzz_tokenizer.h"

#include "text/load_hf_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    tokenizer *t;
    err e = {0};
    json *root;
    if (json_parse(&root, span_of(data, n), "fuzz", &e)) return 0;
    t = tokenizer_new();
    int rc = load_hf_json(t, root, "fuzz", &e);
    json_free(root);
    use_tokenizer(t, rc, &e);
    tokenizer_close(t);
    return 0;
}
