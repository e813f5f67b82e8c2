/* fuzz_jinja.c - chat templates and their contexts. A byte 0xff ends the template. */
#include "jinja/jinja.h"

#include "base/utf8.h"

#include <stdlib.h>

static void promise(bool kept)
{
    if (!kept) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t *end = n ? memchr(data, 0xff, n) : NULL;
    span source = span_of(data, end ? (size_t)(end - data) : n),
         context = end ? span_of(end + 1, n - source.n - 1)
                       : span_str("{\"l\":[3,\"a\",{\"k\":null}],\"s\":\"<s> é\"}");
    jinja *t;
    jinja_output out = {0};
    err e = {0};
    if (jinja_open(&t, source, &e)) {
        promise(!t && e.msg[0]);
        return 0;
    }
    int rc = jinja_render(t, &(jinja_input){.context = context}, &out, &e);
    promise(rc ? e.msg[0] && !out.text.n : out.text.n == out.user.n);
    promise(utf8_is_valid(buf_span(&out.text)));
    jinja_output_free(&out);
    jinja_close(t);
    return 0;
}
