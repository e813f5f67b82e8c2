/* def_rope.c - reference of ROPE: rotary positions (Su et al. 2021, arXiv 2104.09864) from the tables of core/rope.h.
 *
 * A pair (a, b) becomes (a cos - b sin, b cos + a sin); pairs are (i, i + dims/2) or (2i, 2i + 1). */
#include "ops/rope_heads.h"

GPU_CODE void def_rope(const run *r, const op *o, int worker, int workers) { rope_heads(r, o, worker, workers, NULL); }
