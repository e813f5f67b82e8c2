/* write_gguf.c - see write_gguf.h. Version 3, little-endian, alignment 32. */
#include "io/write_gguf.h"

#include "base/log.h"
#include "base/pool.h"

#include <string.h>

static void add_string(buf *b, span s)
{
    buf_uint(b, s.n, 8);
    buf_add(b, s.p, s.n);
}

static void add_pair(buf *b, const gguf_pair *p)
{
    add_string(b, span_str(p->key));
    buf_uint(b, p->type, 4);
    if (p->type == GGUF_ARRAY) {
        buf_uint(b, p->element, 4);
        buf_uint(b, p->count, 8);
    }
    if (p->type == GGUF_STRING) add_string(b, p->data);
    else buf_add(b, p->data.p, p->data.n);
}

static bool is_general(const gguf_pair *p) { return strncmp(p->key, "general.", 8) == 0; }

/* Dimensions in the order of the file, contiguous first; a scalar is written as one element. */
static void add_dims(buf *b, const shape *s)
{
    buf_uint(b, s->rank ? (uint64_t)s->rank : 1, 4);
    if (!s->rank) buf_uint(b, 1, 8);
    for (int i = s->rank; i-- > 0;) buf_uint(b, (uint64_t)s->dim[i], 8);
}

static uint64_t padded(uint64_t n) { return (n + GGUF_ALIGNMENT - 1) / GGUF_ALIGNMENT * GGUF_ALIGNMENT; }

static int add_tensor(buf *b, const write_tensor *t, uint64_t *offset, err *e)
{
    uint64_t bytes;
    int ggml = dtype_info[t->type].ggml;
    if (ggml < 0)
        return err_set(e, ERR_USAGE, "GGUF has no type %s (tensor \"%s\")", dtype_info[t->type].name, t->name);
    if (t->dims.rank > GGUF_DIMS_MAX)
        return err_set(e, ERR_USAGE, "tensor \"%s\" has more than %d dimensions; GGUF does not allow that", t->name,
                       GGUF_DIMS_MAX);
    if (!write_tensor_bytes(t, &bytes) || bytes == 0)
        return err_set(e, ERR_SPEC, "tensor \"%s\": its shape does not fit type %s", t->name, dtype_info[t->type].name);
    add_string(b, span_str(t->name));
    add_dims(b, &t->dims);
    buf_uint(b, (uint64_t)ggml, 4);
    buf_uint(b, *offset, 8);
    *offset += padded(bytes);
    return OK;
}

int write_gguf_header(buf *out, const gguf_pairs *pairs, const write_tensor *t, size_t n, err *e)
{
    uint64_t offset = 0;
    int rc = pairs->bad ? err_memory(e, NULL) : OK;
    buf_str(out, "GGUF");
    buf_uint(out, GGUF_VERSION, 4);
    buf_uint(out, n, 8);
    buf_uint(out, pairs->n, 8);
    for (int general = 1; general >= 0; general--)
        for (size_t i = 0; i < pairs->n; i++)
            if (is_general(&pairs->pair[i]) == general) add_pair(out, &pairs->pair[i]);
    for (size_t i = 0; i < n && !rc; i++) rc = add_tensor(out, &t[i], &offset, e);
    while (!out->bad && out->n % GGUF_ALIGNMENT) buf_byte(out, 0);
    return !rc && out->bad ? err_memory(e, NULL) : rc;
}

int write_gguf(const char *path, const gguf_pairs *pairs, const write_tensor *t, size_t n, int threads, err *e)
{
    buf b = {0};
    file_out *f = NULL;
    uint64_t done = 0, total = 0, bytes;
    int rc = write_gguf_header(&b, pairs, t, n, e);
    if (threads < 1) threads = pool_default_threads();
    for (size_t i = 0; i < n && !rc; i++)
        if (write_tensor_bytes(&t[i], &bytes)) total += padded(bytes);
    if (!rc) rc = file_create(&f, path, e);
    if (!rc) rc = file_reserve(f, b.n + total, e);
    if (!rc) rc = file_write(f, b.p, b.n, e);
    for (size_t i = 0; i < n && !rc; i++) {
        rc = write_rows(f, &t[i], threads, e);
        if (!rc) rc = file_pad(f, GGUF_ALIGNMENT, e);
        if (!rc && write_tensor_bytes(&t[i], &bytes)) log_progress("writing", "bytes", done += padded(bytes), total);
    }
    if (rc) file_abandon(f);
    else rc = file_commit(f, e);
    buf_free(&b);
    return rc;
}
