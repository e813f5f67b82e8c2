/* fuzz_charsmap.c - precompiled character maps: the blob up to the last 16 bytes, looked up with those. */
#include "fuzz_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    charsmap m;
    err e = {0};
    size_t tail = n < 16 ? n : 16;
    if (charsmap_open(&m, span_of(data, n - tail), &e)) return 0;
    span text = span_of(data + n - tail, tail), to = {0};
    size_t longest = charsmap_longest(&m, text, &to);
    promise(longest <= tail && (!longest || to.n == 0 || to.p[to.n - 1] != 0));
    size_t shortest = charsmap_shortest(&m, text, &to);
    promise(shortest <= longest);
    charsmap_open_ended(&m, text);
    buf whole = {0}, parts = {0};
    norm_map_stream(&m, text, true, &whole);
    size_t used = norm_map_stream(&m, span_of(text.p, tail / 2), false, &parts);
    promise(used <= tail / 2);
    buf_free(&whole);
    buf_free(&parts);
    charsmap_free(&m);
    return 0;
}
