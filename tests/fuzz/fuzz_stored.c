/* fuzz_stored.c - quantized folders of the hub: two bytes with the length of a config.json, that, then safetensors. */
#include "base/mem.h"
#include "io/stored_find.h"

#include <stdlib.h>

static int find(ckpt *c, const json *config, err *e)
{
    buf said = {0};
    int rc = stored_find(c, config, NULL, &said, e);
    buf_free(&said);
    return rc;
}

/* Every row of what was found can be read. */
static void read_rows(const ckpt *c, const char *name)
{
    const ckpt_entry *t = ckpt_find(c, name);
    float *row = t && t->stored ? mem_array((size_t)t->stored->cols, sizeof *row) : NULL;
    if (!row) return;
    stored_floats(t->stored, 0, row);
    stored_floats(t->stored, t->stored->rows - 1, row);
    mem_free(row);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const size_t text = n < 2 ? 0 : data[0] | (size_t)data[1] << 8;
    json *config;
    ckpt *c;
    err e = {0};
    if (n < 2 || text > n - 2 || json_parse(&config, span_of(data + 2, text), "config.json", &e)) return 0;
    if (ckpt_open_bytes(&c, span_of(data + 2 + text, n - 2 - text), "fuzz", &e)) {
        json_free(config);
        return 0;
    }
    if (find(c, config, &e)) {
        if (!e.msg[0]) abort();
    } else {
        read_rows(c, "x.weight");
        read_rows(c, "x");
    }
    ckpt_close(c);
    json_free(config);
    return 0;
}
