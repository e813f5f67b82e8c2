/* cuda_image.c - kernels for a device, out of the embedded images. Machine code needs no compiling at start; a driver
 * that refuses it gets the PTX. An image is unpacked where it is loaded (8 MB of PTX: 25 ms), and not kept. */
#include "cuda/cuda_image.h"

#include "base/embed.h"
#include "base/mem.h"
#include "cuda/cuda_state.h"
#include "cuda/cuda_unpack.h"

/* The image with the most merit below `most`, whose merit comes there; NULL: there is none. */
static const embedded_file *find_image(const char *name, int capability, int *most)
{
    const embedded_file *best = NULL;
    int has = 0;
    const size_t n = strlen(name);
    for (const embedded_file *f = embedded_files; f->name; f++) {
        if (strncmp(f->name, name, n) || f->name[n] != '.') continue;
        const int merit = cuda_image_merit(f->name + n + 1, capability);
        if (merit <= has || merit >= *most) continue;
        has = merit;
        best = f;
    }
    *most = has;
    return best;
}

bool cuda_has_image(int capability)
{
    int most = INT32_MAX;
    return find_image("definitions", capability, &most) != NULL;
}

/* The release stands in the PTX, whose name has the kind that it is for: "definitions.compute_80.ptx.xz". */
void cuda_tell_build(char *to, size_t n)
{
    static const char image[] = "definitions.", before[] = "release ";
    char kinds[200] = "", release[16] = "";
    for (const embedded_file *f = embedded_files; f->name; f++) {
        char kind[16] = "", *text = NULL;
        if (strncmp(f->name, image, sizeof image - 1)) continue;
        const char *name = f->name + sizeof image - 1;
        const bool ptx = sscanf(name, "compute_%12[0-9a-z]", kind) == 1;
        if (!ptx) sscanf(name, "%15[0-9a-z_]", kind);
        snprintf(kinds + strlen(kinds), sizeof kinds - strlen(kinds), " %s%s", ptx ? "ptx_" : "", kind);
        if (!ptx || cuda_unpack(span_of(f->p, f->n), &text, &(err){0})) continue;
        const char *at = strstr(text, before);
        if (at) sscanf(at + sizeof before - 1, "%15[0-9.]", release);
        mem_free(text);
    }
    snprintf(to, n, "%s%s", release, kinds);
}

/* PTX for 8.0 as PTX for 9.0: the instructions of dependent launches are no comments there (dependent.cuh). */
static void let_depend(char *ptx)
{
    static const char older[] = ".target sm_80", newer[] = ".target sm_90", hidden[] = "// griddepcontrol";
    char *at = strstr(ptx, older);
    if (at) memcpy(at, newer, sizeof newer - 1);
    for (at = ptx; (at = strstr(at, hidden));) memset(at, ' ', 2);
}

int cuda_load_image(cuda_queue *q, const char *name, cu_module *to, err *e)
{
    int code = CU_NO_BINARY, most = INT32_MAX;
    for (const embedded_file *f; code == CU_NO_BINARY && (f = find_image(name, q->capability, &most));) {
        char *image;
        const int rc = cuda_unpack(span_of(f->p, f->n), &image, e);
        if (rc) return rc;
        if (q->capability >= CU_DEPENDENT_CAPABILITY && strstr(f->name, ".ptx")) let_depend(image);
        *to = NULL;
        code = q->cu->cuModuleLoadData(to, image);
        mem_free(image);
    }
    if (code) *to = NULL;
    if (code == CU_NO_BINARY)
        return err_set(e, ERR_UNAVAILABLE, "this build has no kernels for CUDA devices of capability %d.%d",
                       q->capability / 10, q->capability % 10);
    return cuda_done(q, code, "loading kernels", e);
}

int cuda_find(cuda_queue *q, cu_module image, const char *name, cu_function *to, err *e)
{
    return cuda_done(q, q->cu->cuModuleGetFunction(to, image, name), "finding a kernel", e);
}
