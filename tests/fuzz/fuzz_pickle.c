/* fuzz_pickle.c - the pickle machine with the globals of torch: no container around the input. */
#include "io/pickle_torch.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    torch_world w = {0};
    pickle p = {0};
    err e = {0};
    pv root;
    cursor in = cursor_of(span_of(data, n));
    torch_host(&w, &p.host);
    if (pickle_load(&p, &in, &root, &e) == OK) {
        if (root >= p.n) abort();
    } else if (!e.msg[0]) {
        abort();
    }
    for (size_t i = 0; i < p.n; i++) {
        const pickle_value *v = pickle_at(&p, (pv)i);
        bool list = v->kind == PV_TUPLE || v->kind == PV_LIST || v->kind == PV_SET || v->kind == PV_DICT;
        for (uint32_t k = 0; list && k < v->n; k++)
            if (v->item[k] >= p.n) abort();
        span s = pickle_text(&p, (pv)i);
        if (s.n && s.p[s.n - 1] == 0 && s.p[0] == 1 && s.n == SIZE_MAX) abort();
        const torch_tensor *t = torch_tensor_of(&p, (pv)i);
        if (t) torch_is_contiguous(t);
    }
    pickle_free(&p);
    torch_world_free(&w);
    return 0;
}
