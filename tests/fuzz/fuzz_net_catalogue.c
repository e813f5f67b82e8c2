/* fuzz_net_catalogue.c - the list of tensors that a leader sends; the first byte chooses its form. */
#include "net/catalogue.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    catalogue c;
    if (n < 1) return 0;
    const span s = span_of(data + 1, n - 1);
    if (data[0] % 2 ? catalogue_read_flat(&c, s, NULL) : catalogue_read(&c, s, NULL)) return 0;
    uint64_t end = 0;
    for (uint32_t i = 0; i < c.n; i++) {
        const listed *x = &c.tensor[i];
        if (x->at % CATALOGUE_ALIGN || x->at < end || x->at + x->t.bytes > c.bytes) abort();
        if (c.has_trees && x->root + contents_trees(x->t.bytes) * SHA256_BYTES > data + n) abort();
        end = x->at + x->t.bytes;
    }
    catalogue_free(&c);
    return 0;
}
