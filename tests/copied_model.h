/* copied_model.h - for tests: a small model of tests/vectors, written anew as one file or as shards, or changed. */
#pragma once
#include "tests/test.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "io/ckpt.h"
#include "io/write_safetensors.h"
#include "tensor/quant.h"

#include <dirent.h>
#include <sys/stat.h>

static const char model_source[] = "tests/vectors/models/llama";
enum { TENSORS_MAX = 64 };

/* How a copy of the model is written. */
typedef struct layout {
    int shards;             /* 1: one file without index */
    bool turned;            /* the last tensors lie in the first file */
    const char *name, *as;  /* a tensor that is called otherwise */
    const char *wide;       /* one that is held as f32 */
    const char *other_byte; /* one whose first byte is another */
} layout;

static float wide_times = 1; /* what a wide one is multiplied by */

static inline int copied_row(void *self, uint64_t n, float *to, err *e)
{
    (void)e;
    const ckpt_entry *t = self;
    int64_t cols = t->dims.dim[t->dims.rank - 1];
    quant_decode(t->type, t->data + 2 * (int64_t)n * cols, to, (uint64_t)cols); /* of two bytes each */
    for (int64_t i = 0; i < cols; i++) to[i] *= wide_times;
    return OK;
}

static inline void put(const char *path, const void *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    fclose(f);
}

static inline void put_in(const char *dir, const char *name, const buf *b)
{
    char *path = file_join(dir, name);
    put(path, b->p, b->n);
    mem_free(path);
}

static inline void shard_name(char *to, size_t cap, const layout *l, int k)
{
    if (l->shards == 1) snprintf(to, cap, "model.safetensors");
    else snprintf(to, cap, "model-%05d-of-%05d.safetensors", k + 1, l->shards);
}

/* Writes the model of `model_source` to a new folder. */
static inline void write_model(const char *dir, const layout *l)
{
    err e = {0};
    ckpt *c;
    buf index = {0}, config = {0};
    static uint8_t changed[1 << 16];
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_ok(ckpt_open(&c, model_source, &e), &e);
    uint32_t n = ckpt_count(c);
    assert_true(n <= TENSORS_MAX);
    buf_str(&index, "{\"weight_map\":{");
    for (int k = 0; k < l->shards; k++) {
        write_tensor t[TENSORS_MAX];
        size_t count = 0;
        char name[80], *path;
        shard_name(name, sizeof name, l, k);
        for (uint32_t i = 0; i < n; i++) {
            const ckpt_entry *s = ckpt_at(c, i);
            int place = (int)((l->turned ? n - 1 - i : i) * (uint32_t)l->shards / n);
            if (place != k) continue;
            write_tensor *to = &t[count++];
            *to = (write_tensor){.name = s->name, .type = s->type, .dims = s->dims, .raw = s->data};
            if (l->name && !strcmp(l->name, s->name)) to->name = l->as;
            if (l->wide && !strcmp(l->wide, s->name))
                to->type = DTYPE_F32, to->raw = NULL, to->row = copied_row, to->self = (void *)s;
            if (l->other_byte && !strcmp(l->other_byte, s->name)) {
                assert_true(s->bytes <= sizeof changed);
                memcpy(changed, s->data, s->bytes);
                changed[0] ^= 1;
                to->raw = changed;
            }
            buf_printf(&index, "%s\"%s\":\"%s\"", index.n > 16 ? "," : "", to->name, name);
        }
        path = file_join(dir, name);
        assert_ok(write_safetensors(path, t, count, NULL, &e), &e);
        mem_free(path);
    }
    buf_str(&index, "}}");
    if (l->shards > 1) put_in(dir, "model.safetensors.index.json", &index);
    char *from = file_join(model_source, "config.json");
    assert_ok(file_read(&config, from, 1 << 16, &e), &e);
    put_in(dir, "config.json", &config);
    mem_free(from);
    ckpt_close(c);
    buf_free(&index);
    buf_free(&config);
}

/* Removes a folder with the files in it. */
static inline void drop_folder(const char *dir)
{
    DIR *d = opendir(dir);
    for (const struct dirent *f; d && (f = readdir(d));) {
        char *path = file_join(dir, f->d_name);
        if (f->d_name[0] != '.' && unlink(path)) rmdir(path);
        mem_free(path);
    }
    if (d) closedir(d);
    rmdir(dir);
}
