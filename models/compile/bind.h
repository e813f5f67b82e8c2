/* bind.h - from weight slots to tensors of the checkpoint: the [tensors] section.
 *
 *     {i}.attn.q = layers.{i}.self_attn.q_proj | gguf:blk.{i}.attn_q (rope_pairs)
 *
 * A line lists names, the first that exists is taken; `.weight` may be left out; `prefix` is tried in front. A source
 * in front (gguf:, llama2c:) restricts a name to checkpoints of that format. In brackets after a name: what is done to
 * its values:
 *     transpose                  the file holds [in, out] (Conv1D)
 *     fit                        transpose where its last axis is not as long as a row
 *     rope_pairs, head_pairs     heads lie in the order of neighbour rotation; ours is halves
 *     rows A .. B                rows A to B-1 of a fused tensor
 *     every S take L at O        rows O to O+L-1 of every S rows: fused q, k, v by head or by group
 *     columns A .. B             columns A to B-1, after transpose
 *     unit                       each row divided by its length (normalised heads)
 *     exp                        e to the power of each value: files hold the logarithms of rates of decay
 *     conv1d                     the kernel of a Conv1d, [channels, 1, taps]: transposed, a row for each tap; in GGUF
 *                                without the axis of one
 *     kernel                     the kernel of a Conv1d over all columns, [out, in, taps], as [out, in * taps]
 *     norm N eps E, through L    the rows pass the layer norm N, then the linear layer L; its outputs by parts
 *     alone                      in GGUF: X.scale beside X.weight is no factor of its values
 *     flat                       a stack of matrices that an export writes as one matrix, without an axis of its own
 *     bare                       an export writes the name as it stands, without .weight
 *     + N, * N                   values plus or times N: norms that store w - 1
 * A range in a name stacks tensors along their rows: q_norm.{0 .. heads}.weight. Where a weight is a stack of matrices
 * (one for each expert, or for each head), it is either such a range, or one tensor that holds them one below the
 * other, with an axis more or flat; a recipe then is about each matrix.
 * Biases follow their weights: the same name with `.bias`, the same rows. Each tensor of the checkpoint must be used,
 * or match one of the patterns in `ignore`; of fused tensors every row. */
#pragma once
#include "core/program.h"
#include "io/ckpt.h"
#include "models/spec/config_eval.h"
#include "models/compile/weight_policy.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct binder binder;

/* policy: types of matrices; NULL: all as in the file. Without a program only bind_has and bind_values can be asked. */
int bind_open(binder **out, program *p, spec *s, config_eval *values, const ckpt *c, weight_policy *policy, err *e);
void bind_close(binder *b); /* NULL ok */

typedef struct bind_want {
    const char *slot;     /* "attn.q", "norm.a", "token"; in an encoder "enc.attn.q" */
    const char *for_whom; /* "llama.ini:20: attn": who asks, for messages */
    int layer;            /* OUTSIDE for none */
    int64_t rows, cols;   /* rows 0: as many as the tensor has; cols 0: a vector of `rows` */
    int parts;            /* the rows are those of so many equal matrices; 0 = one */
    int pairs, rotated;   /* where rope_pairs is allowed: head_dim and how much of it rotates */
    bool bias;            /* the bias of `slot` */
    bool optional;        /* absent: *out = 0 and OK */
    bool keep_type;       /* no policy touches it */
    bool floats;          /* held as float32 */
    bool table;           /* the token table */
    bool output_scale;    /* a factor beside the matrix may be left to weight.output_scale */
    bool order;           /* its columns may lie in another order (weight.order) */
} bind_want;

/* The weight as a tensor of the program; asked twice, it is the same tensor. */
int bind_weight(binder *b, const bind_want *w, ref *out, err *e);
/* "{i}.attn.q", "token", "enc.{i}.attn.q": how [tensors] calls a slot; with a number for {i} where `number` is not
 * NULL. */
void bind_key(char *to, size_t cap, const char *slot, int layer, const char *number);
/* Whether the checkpoint has a tensor for the slot. */
int bind_has(binder *b, const char *slot, int layer, bool *has, err *e);
/* The elements of a slot's tensor as float32 in `mem`; NULL and *n = 0 when the checkpoint has none, NULL and an error
 * in e when memory is short or there are more than 65536. */
const float *bind_values(binder *b, const char *slot, int layer, arena *mem, size_t *n, err *e);
/* After the last weight: tensors and rows that nothing uses are errors. */
int bind_finish(binder *b, err *e);
