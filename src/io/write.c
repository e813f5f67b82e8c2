/* write.c - see write.h: what the formats share. */
#include "io/write.h"

#include "base/mem.h"
#include "tensor/quant.h"
#include "tensor/quant_fit.h"
#include "tensor/quant_range.h"

bool write_tensor_bytes(const write_tensor *t, uint64_t *bytes)
{
    uint64_t n;
    int64_t cols = t->dims.rank ? t->dims.dim[t->dims.rank - 1] : 1;
    return t->type != DTYPE_NONE && shape_count(&t->dims, &n) && cols % dtype_info[t->type].weights == 0 &&
           dtype_bytes(t->type, n, bytes);
}

/* Rows are made one after the other; all threads encode CHUNK_BYTES of floats at a time. */
enum { CHUNK_BYTES = 4 << 20 };

typedef struct chunk {
    const write_tensor *t;
    uint64_t cols, row_bytes, from, n; /* n rows from that one on */
    float *values;
    uint8_t *encoded;
    const void **raw; /* [n] bytes that are there already, or NULL */
} chunk;

/* Whether some row has values that the type cannot hold. */
static bool encode_chunk(const chunk *c, int threads)
{
    bool beyond = false;
    (void)threads; /* without OpenMP */
#pragma omp parallel for num_threads(threads) reduction(|| : beyond)
    for (uint64_t i = 0; i < c->n; i++) {
        const float *row = c->values + i * c->cols;
        if (c->raw[i]) continue;
        beyond |= quant_range_of(c->t->type, row, c->cols);
        quant_fit(c->t->type, row, c->cols,
                  fit_importance_of(c->t->importance, (int64_t)(c->from + i), (int64_t)c->cols),
                  c->encoded + i * c->row_bytes);
    }
    return beyond;
}

/* The error of the first such row. */
static int say_beyond(const chunk *c, err *e)
{
    int rc = OK;
    for (uint64_t i = 0; i < c->n && !rc; i++)
        if (!c->raw[i])
            rc = quant_range_error(c->t->type, c->t->name, (int64_t)(c->from + i), c->values + i * c->cols, c->cols, e);
    return rc;
}

static int write_chunk(file_out *f, const chunk *c, int threads, err *e)
{
    const write_tensor *t = c->t;
    int rc = OK;
    bool any = false;
    for (uint64_t i = 0; i < c->n && !rc; i++) {
        uint8_t *room = c->encoded + i * c->row_bytes;
        c->raw[i] = t->raw_row ? t->raw_row(t->self, c->from + i, t->type, room) : NULL;
        if (c->raw[i]) continue;
        any = true;
        if (quant_can_encode(t->type)) rc = t->row(t->self, c->from + i, c->values + i * c->cols, e);
        else rc = err_set(e, ERR_USAGE, "type %s cannot be written", dtype_info[t->type].name);
    }
    if (!rc && any && encode_chunk(c, threads)) rc = say_beyond(c, e);
    for (uint64_t i = 0; i < c->n && !rc; i++)
        rc = file_write(f, c->raw[i] ? c->raw[i] : c->encoded + i * c->row_bytes, c->row_bytes, e);
    return rc;
}

int write_rows(file_out *f, const write_tensor *t, int threads, err *e)
{
    uint64_t bytes, n;
    if (!write_tensor_bytes(t, &bytes) || !shape_count(&t->dims, &n))
        return err_set(e, ERR_SPEC, "tensor \"%s\": its shape does not fit type %s", t->name, dtype_info[t->type].name);
    if (t->stream) {
        uint64_t end = file_offset(f) + bytes;
        int rc = t->stream(t->self, f, e);
        return rc || file_offset(f) == end ? rc : err_set(e, ERR_SPEC, "tensor \"%s\": wrong number of bytes", t->name);
    }
    if (t->raw || n == 0) return file_write(f, t->raw, bytes, e);
    chunk c = {.t = t, .cols = t->dims.rank ? (uint64_t)t->dims.dim[t->dims.rank - 1] : 1};
    uint64_t rows = n / c.cols, step = CHUNK_BYTES / sizeof(float) / c.cols;
    step = step < 1 ? 1 : step < rows ? step : rows;
    c.row_bytes = dtype_row_bytes(t->type, c.cols);
    c.values = mem_array(step, c.cols * sizeof *c.values);
    c.encoded = mem_array(step, c.row_bytes);
    c.raw = mem_array(step, sizeof *c.raw);
    int rc = c.values && c.encoded && c.raw ? OK : err_memory(e, NULL);
    for (; c.from < rows && !rc; c.from += c.n) {
        c.n = rows - c.from < step ? rows - c.from : step;
        rc = write_chunk(f, &c, threads, e);
    }
    mem_free(c.values);
    mem_free(c.encoded);
    mem_free((void *)c.raw);
    return rc;
}
