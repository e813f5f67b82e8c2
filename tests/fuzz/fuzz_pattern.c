/* fuzz_pattern.c - translates, compiles and matches regular expressions. A byte 0xff ends the pattern. */
#include "fuzz_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t *end = n ? memchr(data, 0xff, n) : NULL;
    span pattern = span_of(data, end ? (size_t)(end - data) : n),
         text = end ? span_of(end + 1, n - pattern.n - 1) : span_str("a b\n1");
    if (!utf8_is_valid(pattern) || !utf8_is_valid(text) ||
        memchr(pattern.p ? pattern.p : (const uint8_t *)"", 0, pattern.n))
        return 0;
    for (int flavour = 0; flavour < 2; flavour++) {
        regex *r;
        regex_work *w;
        err e = {0};
        if (regex_compile(&r, pattern, flavour ? REGEX_FANCY : REGEX_ONIGURUMA, &e)) {
            promise(!r && e.msg[0]);
            continue;
        }
        promise(regex_work_open(&w, &e) == OK);
        regex_walk m = regex_begin(r, w, text);
        size_t start, stop, last = 0;
        for (int rc; (rc = regex_next(&m, &start, &stop, &e)) > 0; last = stop)
            promise(start >= last && stop >= start && stop <= text.n);
        regex_work_free(w);
        regex_free(r);
    }
    return 0;
}
