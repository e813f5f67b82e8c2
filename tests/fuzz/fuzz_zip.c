/* fuzz_zip.c - the ZIP directory: every entry that is listed lies in the file, none overlaps another. */
#include "io/zip.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    zip z;
    err e = {0};
    if (zip_list(&z, span_of(data, n), &e) == OK) {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < z.n; i++) {
            const zip_entry *x = &z.entry[i];
            if (x->offset > n || x->bytes > n - x->offset || zip_find(&z, x->name) != x) abort();
            sum += x->bytes;
        }
        if (sum > n) abort();
    } else if (!e.msg[0]) {
        abort();
    }
    zip_free(&z);
    return 0;
}
