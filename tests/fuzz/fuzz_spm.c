/* fuzz_spm.c - SentencePiece models. */
#include "fuzz_tokenizer.h"

#include "text/load_spm.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    err e = {0};
    spm_probe(span_of(data, n));
    tokenizer *t = tokenizer_new();
    use_tokenizer(t, load_spm(t, span_of(data, n), "fuzz", &e), &e);
    tokenizer_close(t);
    return 0;
}
