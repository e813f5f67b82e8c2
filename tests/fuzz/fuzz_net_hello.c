/* fuzz_net_hello.c - what a process that connects says first: what is read must come back as it was written. */
#include "base/span.h"
#include "net/hello.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static hello h, mine, back;
    buf b = {0};
    err e = {0};
    if (!mine.node && hello_init(&mine, &e)) abort();
    if (hello_read(&h, span_of(data, n), &e)) return 0;
    bool fits = hello_check(&mine, &h, false, &e) == OK;
    if (fits) {
        if (!hello_write(&b, &h) || hello_read(&back, buf_span(&b), &e) || memcmp(&h, &back, sizeof h) != 0) abort();
        if (b.n > n || memcmp(b.p, data, b.n) != 0) abort();
    }
    buf_free(&b);
    return 0;
}
