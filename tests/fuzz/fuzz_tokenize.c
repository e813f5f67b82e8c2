/* fuzz_tokenize.c - hostile text through the small vocabularies of tests/vectors/tokenizers (run from the project's
 * root). The first byte chooses the vocabulary. A vocabulary of all bytes gives every valid text back. */
#include "fuzz_tokenizer.h"

#include "text/tokenizer_open.h"

#include <stdio.h>

static const char *const names[] = {"random0.json",  "random1.json",  "random2.json",  "random3.json",  "random4.json",
                                    "random5.json",  "random6.json",  "random7.json",  "random8.json",  "random9.json",
                                    "random10.json", "random11.json", "bpe.model",     "unigram.model", "suffix.model",
                                    "llama2c.bin",   "vocab.txt",     "ranks.tiktoken"};
enum { COUNT = sizeof names / sizeof *names };

static tokenizer *opened(int i)
{
    static tokenizer *all[COUNT];
    char path[100];
    err e = {0};
    snprintf(path, sizeof path, "tests/vectors/tokenizers/%s", names[i]);
    if (!all[i] && tokenizer_open(&all[i], path, strstr(path, "tiktoken") ? "cl100k" : NULL, &e)) {
        fprintf(stderr, "%s\n", e.msg);
        abort();
    }
    return all[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!n) return 0;
    int i = data[0] % COUNT;
    const tokenizer *t = opened(i);
    span text = span_of(data + 1, n - 1);
    use_text(t, text);
    if (i == COUNT - 1 && utf8_is_valid(text)) {
        token_list ids = {0};
        buf back = {0};
        promise(tokenizer_encode(t, text, 0, &ids, NULL) == OK &&
                tokenizer_decode(t, ids.id, ids.n, 0, &back, NULL) == OK);
        promise(span_eq(buf_span(&back), text));
        token_list_free(&ids);
        buf_free(&back);
    }
    return 0;
}
