/* fuzz_json.c - JSON: the parser accepts its own output for each text that it accepted, and prints the same text again;
 * strict JSON, and JSON with Python's names of numbers. */
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

typedef int parser(json **, span, const char *, err *);

/* false: it was refused. */
static bool prints_the_same(parser *parse, const uint8_t *data, size_t n)
{
    json *j, *again;
    err e = {0};
    if (parse(&j, span_of(data, n), "fuzz", &e) != OK) {
        if (!e.msg[0] || j) abort();
        return false;
    }
    buf first = {0}, second = {0};
    if (!json_print(&first, j, false)) abort();
    if (json_parse(&again, buf_span(&first), "printed", &e) != OK) abort();
    if (!json_print(&second, again, false) || !span_eq(buf_span(&first), buf_span(&second))) abort();
    json_free(j);
    json_free(again);
    buf_free(&first);
    buf_free(&second);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const bool strict = prints_the_same(json_parse, data, n);
    if (!prints_the_same(json_parse_python, data, n) && strict) abort();
    return 0;
}
