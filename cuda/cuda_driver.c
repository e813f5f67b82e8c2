/* cuda_driver.c - see cuda_driver.h. */
#include "cuda/cuda_driver.h"
#include "cuda/cuda_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

static struct {
    pthread_mutex_t lock;
    bool tried, there;
    cuda_driver calls;
    char why[256];
} driver = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The oldest driver whose PTX compiler and cubin loader take what nvcc 13 writes. */
enum { OLDEST = 13000 };

static bool find_calls(void *library)
{
    static const char *const names[] = {
#define X(name, parameters) #name,
        CU_CALLS(X)
#undef X
    };
    void *found[sizeof names / sizeof *names];
    const char *lacks = cuda_library_find(library, names, sizeof names / sizeof *names, found);
    if (lacks) {
        snprintf(driver.why, sizeof driver.why, "libcuda.so.1 has no %s: the NVIDIA driver is too old", lacks);
        return false;
    }
    size_t i = 0;
#define X(name, parameters) *(void **)&driver.calls.name = found[i++];
    CU_CALLS(X)
#undef X
    return true;
}

static bool start(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const char *text = NULL;
    int version = 0;
    if (!library) {
        snprintf(driver.why, sizeof driver.why, "no NVIDIA driver: libcuda.so.1 cannot be opened");
        return false;
    }
    if (!find_calls(library)) return false;
    int code = driver.calls.cuInit(0);
    if (code) {
        driver.calls.cuGetErrorString(code, &text);
        snprintf(driver.why, sizeof driver.why, "the NVIDIA driver does not start: %s", text ? text : "unknown error");
        return false;
    }
    driver.calls.cuDriverGetVersion(&version);
    if (version >= OLDEST) return true;
    snprintf(driver.why, sizeof driver.why, "the NVIDIA driver knows CUDA %d.%d; %d.%d or later is needed",
             version / 1000, version % 1000 / 10, OLDEST / 1000, OLDEST % 1000 / 10);
    return false;
}

const cuda_driver *cuda_driver_open(const char **why)
{
    pthread_mutex_lock(&driver.lock);
    if (!driver.tried) driver.there = start();
    driver.tried = true;
    pthread_mutex_unlock(&driver.lock);
    *why = driver.there ? NULL : driver.why;
    return driver.there ? &driver.calls : NULL;
}

int cuda_check(const cuda_driver *cu, int code, const char *what, err *e)
{
    const char *text = NULL;
    if (code == CU_SUCCESS) return OK;
    cu->cuGetErrorString(code, &text);
    return err_set(e, code == CU_OUT_OF_MEMORY ? ERR_MEMORY : ERR_IO, "the CUDA device: %s: %s", what,
                   text ? text : "unknown error");
}
