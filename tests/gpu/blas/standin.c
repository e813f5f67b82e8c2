/* standin.c - a libcublas.so.13 for the software GPU: the calls of cuda/blas.h, with one kernel behind them. */
#include "cuda/cuda_driver.h"

#include <stddef.h>
#include <stdlib.h>

enum { DONE, NOT_READY = 1, BAD_VALUE = 7, FAILED = 13, NOT_SUPPORTED = 15 };
enum { TRANSPOSED = 1, THREADS = 64 };

typedef struct handle {
    cu_module module;
    cu_function gemm;
    cu_stream stream;
} handle;

#define X(name, parameters) int name parameters;
CU_CALLS(X)
#undef X

extern const char standin_ptx[]; /* with NUL */
__asm__(".section .rodata\nstandin_ptx:\n.incbin \"" STANDIN_PTX "\"\n.byte 0\n.previous\n");

int cublasCreate_v2(handle **out)
{
    handle *h = *out = calloc(1, sizeof *h);
    if (!h) return NOT_READY;
    if (!cuModuleLoadData(&h->module, standin_ptx) && !cuModuleGetFunction(&h->gemm, h->module, "gemm")) return DONE;
    free(h);
    *out = NULL;
    return NOT_READY;
}

int cublasDestroy_v2(handle *h)
{
    cuModuleUnload(h->module);
    free(h);
    return DONE;
}

int cublasGetVersion_v2(handle *h, int *version)
{
    *version = 130100;
    return h ? DONE : BAD_VALUE;
}

int cublasSetStream_v2(handle *h, void *stream)
{
    h->stream = stream;
    return DONE;
}

int cublasSetWorkspace_v2(handle *h, void *at, size_t bytes)
{
    return !h || !at || (size_t)at % 256 || !bytes ? BAD_VALUE : DONE;
}

int cublasSetMathMode(handle *h, int mode) { return !h || mode != 16 ? BAD_VALUE : DONE; }

int cublasGemmEx(handle *h, int transpose_a, int transpose_b, int m, int n, int k, const void *alpha, const void *a,
                 int a_type, int lda, const void *b, int b_type, int ldb, const void *beta, void *c, int c_type,
                 int ldc, int compute, int algorithm)
{
    (void)compute, (void)algorithm;
    if (transpose_a != TRANSPOSED || transpose_b || *(const float *)alpha != 1 || *(const float *)beta != 0 || c_type ||
        a_type != b_type || (a_type != 0 && a_type != 2 && a_type != 14))
        return NOT_SUPPORTED;
    if (m < 1 || n < 1 || k < 1 || lda < k || ldb < k || ldc < m) return BAD_VALUE;
    const unsigned blocks = (unsigned)(((long long)m * n + THREADS - 1) / THREADS);
    return cuLaunchKernel(h->gemm, blocks, 1, 1, THREADS, 1, 1, 0, h->stream,
                          (void *[]){&a, &b, &c, &m, &n, &k, &lda, &ldb, &ldc, &a_type}, NULL)
               ? FAILED
               : DONE;
}
