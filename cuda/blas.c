/* blas.c - see blas.h. cuBLAS counts columns first: a matrix whose rows lie one after another is its transpose. */
#include "cuda/blas.h"
#include "cuda/cuda_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Its numbers: cublasOperation_t, cublasComputeType_t, cublasMath_t, cublasGemmAlgo_t. */
enum { AS_IT_IS = 0, TRANSPOSED = 1, COMPUTE_F32 = 68, COMPUTE_TF32 = 77, SUMS_IN_F32 = 16, ANY_ALGORITHM = -1 };

static struct {
    pthread_mutex_t lock;
    bool there;
    blas_calls calls;
} library = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The name of a function that the library lacks; NULL: it has all. */
static const char *find_calls(void *from)
{
    static const char *const names[] = {
#define X(name, parameters) #name,
        BLAS_CALLS(X)
#undef X
    };
    void *found[sizeof names / sizeof *names];
    const char *lacks = cuda_library_find(from, names, sizeof names / sizeof *names, found);
    if (lacks) return lacks;
    size_t i = 0;
#define X(name, parameters) *(void **)&library.calls.name = found[i++];
    BLAS_CALLS(X)
#undef X
    return NULL;
}

static int find_library(const char *path, err *e)
{
    const char *const usual[] = {"libcublas.so.13", "libcublas.so.12", "/usr/local/cuda/lib64/libcublas.so.13",
                                 "/usr/local/cuda/lib64/libcublas.so.12", NULL},
                      *const only[] = {path, NULL};
    void *from = NULL;
    for (const char *const *at = path ? only : usual; *at && !from; at++) from = dlopen(*at, RTLD_NOW | RTLD_LOCAL);
    if (!from && path) return err_set(e, ERR_UNAVAILABLE, "--cublas: %s", dlerror());
    if (!from)
        return err_set(e, ERR_UNAVAILABLE, "cuBLAS is not there (libcublas.so.13): install it, or give --cublas PATH");
    const char *lacks = find_calls(from);
    library.there = !lacks;
    return library.there ? OK : err_set(e, ERR_UNAVAILABLE, "%s has no %s", path ? path : "libcublas", lacks);
}

const blas_calls *blas_open(const char *path, err *e)
{
    pthread_mutex_lock(&library.lock);
    const int rc = library.there ? OK : find_library(path, e);
    pthread_mutex_unlock(&library.lock);
    return rc ? NULL : &library.calls;
}

static int check(int code, const char *what, err *e)
{
    return code ? err_set(e, ERR_IO, "cuBLAS: %s: error %d", what, code) : OK;
}

int blas_handle_open(const blas_calls *blas, blas_handle **h, void *stream, uint64_t workspace, size_t bytes,
                     int *version, err *e)
{
    int rc = check(blas->cublasCreate_v2(h), "opening it", e);
    if (rc) return *h = NULL, rc;
    rc = check(blas->cublasGetVersion_v2(*h, version), "asking for its version", e);
    if (!rc) rc = check(blas->cublasSetStream_v2(*h, stream), "giving it a stream", e);
    if (!rc && bytes)
        rc = check(blas->cublasSetWorkspace_v2(*h, (void *)(uintptr_t)workspace, bytes), "giving it memory", e);
    if (!rc) rc = check(blas->cublasSetMathMode(*h, SUMS_IN_F32), "choosing its sums", e);
    if (rc) blas->cublasDestroy_v2(*h), *h = NULL;
    return rc;
}

int blas_multiply(const blas_calls *blas, blas_handle *h, const blas_product *p, err *e)
{
    const float one = 1, zero = 0;
    const int k = (int)p->k, type = (int)p->type;
    return check(blas->cublasGemmEx(h, TRANSPOSED, AS_IT_IS, (int)p->n, (int)p->rows, k, &one,
                                    (const void *)(uintptr_t)p->w, type, k, (const void *)(uintptr_t)p->x, type, k,
                                    &zero, (void *)(uintptr_t)p->y, BLAS_F32, (int)p->ldy,
                                    p->type == BLAS_F32 ? COMPUTE_TF32 : COMPUTE_F32, ANY_ALGORITHM),
                 "multiplying", e);
}
