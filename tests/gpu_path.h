/* gpu_path.h - for tests: where the driver whose devices are programs lies (tests/gpu). */
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The folder of libcuda.so.1, beside the executable that is tested. */
static inline void gpu_folder(char out[1024])
{
    const char *binary = getenv("INFERFLOW_BIN"), *slash = binary ? strrchr(binary, '/') : NULL;
    const char *blank = slash ? strrchr(binary, ' ') : NULL; /* a program that runs it may stand before */
    const char *begin = blank && blank < slash ? blank + 1 : binary;
    snprintf(out, 1024, "%.*s/gpu", slash ? (int)(slash - begin) : 5, slash ? begin : "build");
}
