/* fuzz_net_catalogue.c - the list of tensors that a leader sends. */
#include "net/catalogue.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    catalogue c;
    if (catalogue_read(&c, span_of(data, n), NULL)) return 0;
    for (uint32_t i = 0; i < c.n; i++)
        if (c.tensor[i].at % CATALOGUE_ALIGN || c.tensor[i].at + c.tensor[i].t.bytes > c.bytes) abort();
    catalogue_free(&c);
    return 0;
}
