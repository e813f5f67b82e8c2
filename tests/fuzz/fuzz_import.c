/* fuzz_import.c - imports model_spec.json and inferflow_service.ini; the result must read as a spec. */
#include "models/import/import.h"
#include "models/import/import_write.h"
#include "models/spec/spec_load.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    import_place place = {.dir = "/m", .generate = "", .settings = "", .remarks = ""};
    buf out = {0};
    err e = {0};
    spec *s;
    bool ini = n && (data[0] == '[' || data[0] == ';');
    int rc = ini ? import_service_text(span_of(data, n), "s.ini", "/nowhere", NULL, NULL, NULL, &out, &e)
                 : import_model_spec(span_of(data, n), "m.json", &place, &out, &e);
    if (rc && !e.msg[0]) abort();
    if (!rc && !ini) {
        if (spec_parse(&s, buf_span(&out), "m.ini", "/m", NULL, &e)) {
            fprintf(stderr, "%s\n%s\n", e.msg, buf_cstr(&out));
            abort();
        }
        spec_free(s);
    }
    buf_free(&out);
    return 0;
}
