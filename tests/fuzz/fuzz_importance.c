/* fuzz_importance.c - importance matrices in both forms: what is read must be means of squares that can be found. */
#include "base/err.h"
#include "io/importance.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    importance *m;
    err e = {0};
    if (importance_open_bytes(&m, span_of(data, n), "fuzz", &e)) {
        if (!e.code || !e.msg[0] || m) abort();
        return 0;
    }
    for (int parts = 1; parts < 4; parts++) {
        const fit_importance v = importance_find(m, "blk.0.ffn_up_exps.weight", 6, 4, parts);
        for (int i = 0; v.value && i < 4 * (v.rows ? parts : 1); i++)
            if (!(v.value[i] >= 0)) abort();
    }
    importance_close(m);
    return 0;
}
