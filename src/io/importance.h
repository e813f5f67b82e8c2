/* importance.h - how much the columns of each matrix matter: mean squares of the activations that enter it. Files of `eval importance`, and the imatrix
 * files of llama.cpp, both its GGUF form and the older binary one. */
#ifndef IO_IMPORTANCE_H
#define IO_IMPORTANCE_H
#include "base/err.h"
#include "base/span.h"

#include <stddef.h>
#include <stdint.h>

typedef struct importance importance;

int importance_open(importance **out, const char *path, err *e);
int importance_open_bytes(importance **out, span bytes, const char *name, err *e); /* the bytes are not needed after */
void importance_close(importance *m);                                              /* NULL ok */

size_t importance_count(const importance *m);
/* [cols] for the weight of this name ("dec.3.attn.q"; files may use llama.cpp's names), or NULL: the file has nothing for it, or for another
 * number of columns. Valid until close. */
const float *importance_find(const importance *m, const char *weight, int64_t cols);

/* The name of a weight in llama.cpp's files, or its own where there is none. Returns out. */
char *importance_name(const char *weight, char *out, size_t cap);

/* A matrix's sums over `count` rows of activations, for writing. */
typedef struct importance_sums {
    const char *weight;
    const double *square; /* [cols] */
    int64_t cols, count;
} importance_sums;
/* As GGUF, names those of llama.cpp. */
int importance_write(const char *path, const importance_sums *s, size_t n, err *e);

#endif
