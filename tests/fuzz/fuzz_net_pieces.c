/* fuzz_net_pieces.c - what a node asks its leader for: only bytes that tensors have. */
#include "net/piece_ask.h"

#include <stdlib.h>

static uint64_t bytes_of(const void *ctx, uint32_t i)
{
    (void)ctx;
    return 1000u * (i + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static piece_ask a;
    uint64_t sum = 0;
    cursor c = cursor_of(span_of(data, n));
    if (piece_ask_read(&a, &c, 4, bytes_of, NULL, NULL)) return 0;
    for (uint32_t i = 0; i < a.n; i++) {
        if (a.run[i].entry >= 4 || a.run[i].at + a.run[i].n > bytes_of(NULL, a.run[i].entry)) abort();
        sum += a.run[i].n;
    }
    if (sum != a.bytes || sum > PIECE_BYTES) abort();
    return 0;
}
