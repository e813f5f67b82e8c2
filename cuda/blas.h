/* blas.h - cuBLAS, found at run time: one product, y = x * transpose(w). It sums in an order of its own, which may
 * depend on the number of rows, so only --exact off asks for it. No header and no library is needed to build; the calls
 * are declared here as libcublas exports them (cuBLAS Library, versions 12 and 13). */
#pragma once
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct blas_handle blas_handle;

/* Types of elements, as cudaDataType numbers them. */
typedef enum { BLAS_F32 = 0, BLAS_F16 = 2, BLAS_BF16 = 14 } blas_type;

/* X(name, parameters); all return a code, 0 for success. */
#define BLAS_CALLS(X)                                                                                                  \
    X(cublasCreate_v2, (blas_handle * *handle))                                                                        \
    X(cublasDestroy_v2, (blas_handle * handle))                                                                        \
    X(cublasGetVersion_v2, (blas_handle * handle, int *version))                                                       \
    X(cublasSetStream_v2, (blas_handle * handle, void *stream))                                                        \
    X(cublasSetWorkspace_v2, (blas_handle * handle, void *at, size_t bytes))                                           \
    X(cublasSetMathMode, (blas_handle * handle, int mode))                                                             \
    X(cublasGemmEx, (blas_handle * handle, int transpose_a, int transpose_b, int m, int n, int k, const void *alpha,   \
                     const void *a, int a_type, int lda, const void *b, int b_type, int ldb, const void *beta,         \
                     void *c, int c_type, int ldc, int compute, int algorithm))

typedef struct blas_calls {
#define X(name, parameters) int(*name) parameters;
    BLAS_CALLS(X)
#undef X
} blas_calls;

/* The library: of `path`; NULL: libcublas.so.13 or .12, where the loader looks, then in the toolkit's folder. Opened
 * once for the process and never closed. NULL: ERR_UNAVAILABLE says why. Thread-safe. */
const blas_calls *blas_open(const char *path, err *e);

/* A handle in the context that is current, for work of one stream, with `bytes` bytes of device memory at `workspace`
 * (0: none of the caller's); *version: 130100 for 13.1. */
int blas_handle_open(const blas_calls *blas, blas_handle **h, void *stream, uint64_t workspace, size_t bytes,
                     int *version, err *e);
/* y = x * transpose(w), all in device memory. x is [rows][k] and w is [n][k], of one type. y is [rows][ldy], of which
 * the first n columns are written. Sums and y are float32. */
typedef struct blas_product {
    uint64_t x, w, y;
    int64_t rows, n, k, ldy;
    blas_type type;
} blas_product;
int blas_multiply(const blas_calls *blas, blas_handle *h, const blas_product *p, err *e);
