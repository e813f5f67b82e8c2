/* fuzz_derive.c - derives a spec from the names and shapes of a safetensors file; the result must read as a spec. */
#include "models/derive/derive.h"
#include "models/derive/derive_write.h"
#include "models/spec/spec_load.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    ckpt *c;
    parts p = {0};
    buf out = {0};
    err e = {0};
    spec *s;
    if (ckpt_open_bytes(&c, span_of(data, n), "fuzz", &e)) return 0;
    buf_str(&out, "[model]\nbase = llama\n");
    int rc = parts_find(&p, c, &e);
    if (!rc) rc = derive_from_parts(c, &p, &out, &e);
    if (rc && !e.msg[0]) abort();
    if (!rc) {
        if (spec_parse(&s, buf_span(&out), "derived.ini", "", NULL, &e)) {
            fprintf(stderr, "%s\n%s\n", e.msg, buf_cstr(&out));
            abort();
        }
        spec_free(s);
    }
    parts_free(&p);
    buf_free(&out);
    ckpt_close(c);
    return 0;
}
