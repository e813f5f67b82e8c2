/* cuda_image.h - which images of kernels run on a device.
 *
 * Images are named IMAGE.KIND.xz, and nvcc's names of kinds say where one runs: machine code of sm_86 on 8.6 and later
 * 8.x, PTX of compute_80 on 8.0 and all that came later, and what ends with an a on that capability alone. They are
 * packed (cuda_unpack.h). */
#pragma once
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Writes the release of nvcc, and for which kinds of devices there are kernels: "13.0 sm_80 sm_90a ptx_80". */
void cuda_tell_build(char *to, size_t n);

/* How well an image suits a device of that capability (80: 8.0), from its name behind the first dot:
 * "sm_80.cubin.xz". 0: it does not run there. */
static inline int cuda_image_merit(const char *kind, int capability)
{
    int made_for = 0, end = 0;
    const bool machine_code = sscanf(kind, "sm_%d%n", &made_for, &end) == 1;
    if (!machine_code && sscanf(kind, "compute_%d%n", &made_for, &end) != 1) return 0;
    const bool alone = kind[end] == 'a';
    if (strcmp(kind + end + alone, machine_code ? ".cubin.xz" : ".ptx.xz")) return 0;
    if (alone ? made_for != capability : made_for > capability) return 0;
    if (machine_code && made_for / 10 != capability / 10) return 0;
    return 2 * made_for + alone + (machine_code ? 1 << 16 : 0);
}
