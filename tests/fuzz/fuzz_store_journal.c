/* fuzz_store_journal.c - the journal of what a node keeps of weights; what is read is written again as it was. */
#include "net/store_journal.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static store_record r;
    cursor c = cursor_of(span_of(data, n));
    buf back = {0};
    size_t good = 0;
    while (store_record_read(&r, &c)) {
        good = c.at;
        if (!store_record_write(&back, &r)) break;
    }
    if (!back.bad && !span_eq(buf_span(&back), span_of(data, good))) abort();
    buf_free(&back);
    return 0;
}
