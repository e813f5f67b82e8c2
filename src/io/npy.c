/* npy.c - see npy.h. */
#include "io/npy.h"

#include "base/file.h"
#include "base/mem.h"

#include <inttypes.h>

struct npy {
    file_out *to;
    int64_t rows, cols, written;
};

static int write_header(npy *n, err *e)
{
    enum { START = 10, ALIGN = 64 }; /* bytes before the dict; values begin at a multiple of ALIGN */
    buf b = {0};
    buf_add(&b, "\x93NUMPY\1", 7);
    buf_byte(&b, 0);
    buf_uint(&b, 0, 2);
    buf_printf(&b, "{'descr': '<f4', 'fortran_order': False, 'shape': (%" PRId64 ", %" PRId64 "), }", n->rows, n->cols);
    while (!b.bad && b.n % ALIGN != ALIGN - 1) buf_byte(&b, ' ');
    buf_byte(&b, '\n');
    if (b.bad) {
        buf_free(&b);
        return err_memory(e, NULL);
    }
    b.p[8] = (uint8_t)(b.n - START);
    b.p[9] = (uint8_t)((b.n - START) >> 8);
    int rc = file_write(n->to, b.p, b.n, e);
    buf_free(&b);
    return rc;
}

int npy_create(npy **out, const char *path, int64_t rows, int64_t cols, err *e)
{
    *out = NULL;
    npy *n = mem_zero(1, sizeof *n);
    if (!n) return err_memory(e, NULL);
    n->rows = rows;
    n->cols = cols;
    int rc = file_create(&n->to, path, e);
    if (!rc) rc = write_header(n, e);
    if (rc) npy_abandon(n);
    else *out = n;
    return rc;
}

int npy_write(npy *n, const float *values, int64_t rows, err *e)
{
    if (rows > n->rows - n->written) return err_set(e, ERR_USAGE, "more rows than the file was made for");
    n->written += rows;
    return file_write(n->to, values, (size_t)(rows * n->cols) * sizeof *values, e);
}

int npy_commit(npy *n, err *e)
{
    int rc = n->written == n->rows
                 ? 0
                 : err_set(e, ERR_FORMAT, "%" PRId64 " of %" PRId64 " rows were written", n->written, n->rows);
    if (rc) {
        npy_abandon(n);
        return rc;
    }
    rc = file_commit(n->to, e);
    mem_free(n);
    return rc;
}

void npy_abandon(npy *n)
{
    if (!n) return;
    file_abandon(n->to);
    mem_free(n);
}
