/* fuzz_ckpt.h - what the checkpoint fuzzers share: opens bytes as a checkpoint and uses everything in it. */
#pragma once
#include "base/mem.h"
#include "io/gguf.h"
#include "tensor/quant.h"
#include "tensor/panel.h"

#include <stdlib.h>

static inline void use_panels(const ckpt_entry *t)
{
    uint64_t count = 0;
    if (!shape_count(&t->dims, &count)) abort();
    int64_t cols = t->dims.dim[t->dims.rank - 1], rows = (int64_t)count / cols;
    uint64_t panel = panel_bytes(t->type, cols), last = (uint64_t)(rows - 1) / PANEL_ROWS;
    if ((last + 1) * panel != t->bytes) abort();
    float *row = mem_array((size_t)cols, sizeof *row);
    if (!row) return;
    panel_row(t->type, t->data, 0, cols, row);
    panel_row(t->type, t->data + last * panel, (int)((rows - 1) % PANEL_ROWS), cols, row);
    mem_free(row);
}

/* Entries are trusted by the engine: their bytes must be readable, and fit type and shape. */
static inline void use_checkpoint(const uint8_t *data, size_t n)
{
    ckpt *c;
    err e = {0};
    int rc = ckpt_open_bytes(&c, span_of(data, n), "fuzz", &e);
    if (rc) {
        if (!e.code || !e.msg[0] || c) abort();
        return;
    }
    for (uint32_t i = 0; i < ckpt_count(c); i++) {
        const ckpt_entry *t = ckpt_at(c, i);
        uint64_t count, bytes;
        if (t->packed) {
            use_panels(t);
            continue;
        }
        if (!shape_count(&t->dims, &count) || !dtype_bytes(t->type, count, &bytes) || bytes != t->bytes) abort();
        if (ckpt_find(c, t->name) != t) abort();
        float block[256];
        uint64_t block_bytes = dtype_info[t->type].bytes, weights = dtype_info[t->type].weights;
        if (count) quant_decode(t->type, t->data, block, weights);
        if (count) quant_decode(t->type, t->data + bytes - block_bytes, block, weights);
    }
    if (ckpt_side_json(c, "tokenizer.json", &e)) ckpt_tokenizer_file(c);
    for (const json *m = json_first(ckpt_config(c)); m; m = json_next(m)) json_str(m, "");
    ckpt_array a;
    if (ckpt_meta_array(c, "strings", &a)) {
        uint64_t at = 0;
        size_t sum = 0;
        for (uint64_t i = 0; i < a.count; i++) {
            span s = ckpt_array_string(&a, &at);
            if (s.n) sum += s.p[s.n - 1];
        }
        if (sum == SIZE_MAX) abort();
        ckpt_array_int(&a, a.count - 1);
    }
    ckpt_close(c);
}
