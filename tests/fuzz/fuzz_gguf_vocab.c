/* fuzz_gguf_vocab.c - tokenizer.ggml.* of GGUF files. */
#include "fuzz_tokenizer.h"

#include "text/load_gguf_vocab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    ckpt *c;
    err e = {0};
    if (ckpt_open_bytes(&c, span_of(data, n), "fuzz", &e)) return 0;
    tokenizer *t = tokenizer_new();
    use_tokenizer(t, load_gguf_vocab(t, c, &e), &e);
    tokenizer_close(t);
    ckpt_close(c);
    return 0;
}
