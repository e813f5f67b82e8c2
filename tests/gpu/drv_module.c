/* drv_module.c - modules, functions, launches. */
#include "tests/gpu/drv_state.h"
#include "tests/gpu/plant.h"

#include <stdlib.h>
#include <string.h>

static uint64_t variable_memory(void *user, size_t bytes, uint8_t **host)
{
    const gpu_range *r = gpu_range_new(((const context *)user)->device, bytes);
    if (!r) abort();
    *host = r->host;
    return r->at;
}

static CUresult load(CUmodule *out, const char *image)
{
    if (!memcmp(image, "\177ELF", 4) || !memcmp(image, "\x50\xed\x55\xba", 4)) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    context *cx = drv_current();
    char *planted = plant_text(image);
    ptx_module *m = ptx_parse(planted ? planted : image, drv_set.whole);
    free(planted);
    if (m->target > drv_set.major * 10 + drv_set.minor) {
        drv_say("PTX for sm_%d does not run on capability %d.%d", m->target, drv_set.major, drv_set.minor);
        ptx_free(m);
        return CUDA_ERROR_INVALID_PTX;
    }
    module *mod = calloc(1, sizeof *mod);
    if (!mod) abort();
    mod->cx = cx;
    mod->p = ptx_program_load(m, variable_memory, cx);
    plant_cover(mod->p);
    mod->functions = calloc((size_t)m->n_function + 1, sizeof *mod->functions);
    if (!mod->functions) abort();
    for (int i = 0; i < m->n_function; i++) mod->functions[i] = (function){.of = mod, .index = i};
    *out = mod;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *out, const void *image)
{
    CUresult r = drv_enter("cuModuleLoadData", CALL_CONTEXT | CALL_UNCAPTURED);
    return drv_leave(r ? r : load(out, image));
}

CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned int n, int *options, void **values)
{
    (void)n, (void)options, (void)values; /* of the real compiler */
    CUresult r = drv_enter("cuModuleLoadDataEx", CALL_CONTEXT | CALL_UNCAPTURED);
    return drv_leave(r ? r : load(out, image));
}

CUresult cuModuleUnload(CUmodule m)
{
    CUresult r = drv_enter("cuModuleUnload", CALL_CONTEXT | CALL_UNCAPTURED);
    if (!r && !m) r = CUDA_ERROR_INVALID_HANDLE;
    if (!r) r = stream_run_context(m->cx);
    if (r) return drv_leave(r);
    for (int i = 0; i < m->p->n_memory; i++) gpu_range_free(gpu_range_at(m->p->memory[i]));
    machine_forget(m->p);
    plant_covered(m->p);
    ptx_program_free(m->p);
    free(m->functions);
    free(m);
    return drv_leave(r);
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name)
{
    CUresult r = drv_enter("cuModuleGetFunction", CALL_CONTEXT);
    if (!r && !m) r = CUDA_ERROR_INVALID_HANDLE;
    if (r) return drv_leave(r);
    const int i = ptx_find_function(m->p->m, name);
    if (i < 0 || !m->p->m->function[i].entry) return drv_leave(CUDA_ERROR_NOT_FOUND);
    *out = &m->functions[i];
    return drv_leave(r);
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *at, size_t *bytes, CUmodule m, const char *name)
{
    CUresult r = drv_enter("cuModuleGetGlobal", CALL_CONTEXT);
    if (!r && !m) r = CUDA_ERROR_INVALID_HANDLE;
    if (r) return drv_leave(r);
    const ptx_variable *v = ptx_program_variable(m->p, name);
    if (!v || (v->space != SPACE_GLOBAL && v->space != SPACE_CONST)) return drv_leave(CUDA_ERROR_NOT_FOUND);
    if (at) *at = (uint64_t)v->at;
    if (bytes) *bytes = (size_t)v->bytes;
    return drv_leave(r);
}

static const ptx_function *code_of(const function *f) { return &f->of->p->m->function[f->index]; }

static int shared_most(const function *f)
{
    const int fixed = (int)ptx_program_shared(f->of->p, f->index);
    return (int)f->dynamic_most > 49152 - fixed ? (int)f->dynamic_most : 49152 - fixed;
}

CUresult cuFuncSetAttribute(CUfunction f, int attribute, int value)
{
    CUresult r = drv_enter("cuFuncSetAttribute", CALL_CONTEXT);
    const int optin = drv_set.major >= 9 ? 232448 : drv_set.minor ? 101376 : 166912;
    if (!r && !f) r = CUDA_ERROR_INVALID_HANDLE;
    if (!r && attribute != FUNCTION_MAX_DYNAMIC && attribute != FUNCTION_CARVEOUT) r = CUDA_ERROR_INVALID_VALUE;
    if (r || attribute == FUNCTION_CARVEOUT) return drv_leave(r);
    if (value < 0 || value + ptx_program_shared(f->of->p, f->index) > optin) return drv_leave(CUDA_ERROR_INVALID_VALUE);
    f->dynamic_most = (uint32_t)value;
    return drv_leave(r);
}

CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction f)
{
    CUresult r = drv_enter("cuFuncGetAttribute", CALL_CONTEXT);
    if (!r && !f) r = CUDA_ERROR_INVALID_HANDLE;
    if (r) return drv_leave(r);
    const int most = code_of(f)->max_threads;
    if (attribute == FUNCTION_LOCAL) ptx_program_need(f->of->p, f->index);
    switch (attribute) {
    case FUNCTION_MAX_THREADS: *value = most ? most : 1024; break;
    case FUNCTION_SHARED: *value = (int)ptx_program_shared(f->of->p, f->index); break;
    case FUNCTION_CONST: *value = 0; break;
    case FUNCTION_LOCAL: *value = (int)f->of->p->local_bytes[f->index]; break;
    case FUNCTION_REGISTERS: *value = 64; break;
    case FUNCTION_PTX_VERSION:
    case FUNCTION_BINARY_VERSION: *value = drv_set.major * 10 + drv_set.minor; break;
    case FUNCTION_MAX_DYNAMIC: *value = shared_most(f); break;
    default: r = CUDA_ERROR_INVALID_VALUE;
    }
    return drv_leave(r);
}

static CUresult check_launch(const function *f, const CUlaunchConfig *c)
{
    const uint64_t threads = (uint64_t)c->blockDimX * c->blockDimY * c->blockDimZ;
    const int most = code_of(f)->max_threads;
    if (!threads || threads > 1024 || c->blockDimZ > 64 || !c->gridDimX || !c->gridDimY || !c->gridDimZ ||
        c->gridDimX > INT32_MAX || c->gridDimY > 65535 || c->gridDimZ > 65535)
        return CUDA_ERROR_INVALID_VALUE;
    if (most && threads > (uint64_t)most) return CUDA_ERROR_INVALID_VALUE;
    return c->sharedMemBytes > (uint32_t)shared_most(f) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult start(const CUlaunchConfig *c, bool depends, function *f, void **params, void **extra)
{
    if (!f || extra) return CUDA_ERROR_INVALID_VALUE;
    stream *s = stream_of(c->hStream);
    if (!s || s->cx != f->of->cx) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult r = check_launch(f, c);
    if (r) {
        drv_say("%s cannot be launched with %u x %u x %u blocks of %u x %u x %u threads and %u bytes", code_of(f)->name,
                c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes);
        return r;
    }
    ptx_program_need(f->of->p, f->index);
    op *o = op_new(OP_KERNEL, s->cx);
    o->fn = f;
    memcpy(o->grid, (uint32_t[]){c->gridDimX, c->gridDimY, c->gridDimZ}, sizeof o->grid);
    memcpy(o->dim, (uint32_t[]){c->blockDimX, c->blockDimY, c->blockDimZ}, sizeof o->dim);
    o->dynamic = c->sharedMemBytes;
    o->depends = depends;
    o->params = calloc(1, PARAM_BYTES);
    if (!o->params) abort();
    for (int i = 0; i < code_of(f)->n_param; i++) {
        const ptx_variable *v = &code_of(f)->param[i];
        memcpy(o->params + v->at, params[i], (size_t)v->bytes);
    }
    drv_count.launches++;
    return stream_add(s, o);
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                        unsigned int by, unsigned int bz, unsigned int shared, CUstream s, void **params, void **extra)
{
    CUresult r = drv_enter("cuLaunchKernel", CALL_CONTEXT);
    const CUlaunchConfig c = {gx, gy, gz, bx, by, bz, shared, s, NULL, 0};
    return drv_leave(r ? r : start(&c, false, f, params, extra));
}

/* Attributes that only make a launch better placed are passed over; clusters would change what runs. */
CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra)
{
    enum { CLUSTER = 4, DEPENDENT = 6 };
    CUresult r = drv_enter("cuLaunchKernelEx", CALL_CONTEXT);
    uint32_t depends = 0;
    for (unsigned i = 0; !r && i < c->numAttrs; i++) {
        if (c->attrs[i].id == CLUSTER && memcmp(c->attrs[i].value, (uint32_t[]){1, 1, 1}, 12))
            r = CUDA_ERROR_NOT_SUPPORTED;
        if (c->attrs[i].id == DEPENDENT) memcpy(&depends, c->attrs[i].value, sizeof depends);
    }
    if (!r && depends && drv_set.major < 9) r = CUDA_ERROR_NOT_SUPPORTED;
    return drv_leave(r ? r : start(c, depends, f, params, extra));
}
