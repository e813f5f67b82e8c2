/* cuda_launches.h - which ops of a segment are one launch. Where results of such ops are read by others too they are
 * written, else they stay in the kernel. */
#pragma once
#include "cuda/cuda_state.h"

/* backend.fuse. */
extern const fuse_table cuda_fuse;

/* The launches of a segment, after its activations were placed. */
int cuda_launches_make(cuda_segment *c, const segment *s, err *e);
/* Op i as a launch by itself, which writes its result. */
cuda_ops cuda_launch_alone(const segment *s, uint32_t i);
void cuda_launches_free(cuda_segment *c);

/* backend.fused. */
const char *cuda_fused(const segment *s, uint32_t i, uint32_t *n);

/* Whether an op besides those n from `first` on reads t, or somebody outside the segment. */
bool cuda_read_elsewhere(const segment *s, ref t, uint32_t first, uint32_t n);
