/* program.h - a model as data: ops in order, tensors, weights as recipes, states, entries, cut points.
 *
 * Built once per model by models/, printed by `plan --dump`, cut into segments by src/plan, compiled and run by
 * backends. No pointer into a model family exists here, so code that knows no model can cut, cost and compare a
 * program. Everything belongs to the program's arena. */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/sha256.h"
#include "core/op.h"
#include "core/rope.h"
#include "tensor/dtype.h"
#include "tensor/stored.h"

#include <stdbool.h>
#include <stdint.h>

/* The leading axis of an activation: a symbol that each step binds to a count. Buffers are sized by its capacity. */
enum row_axis {
    AXIS_NONE, /* no row axis: weights and constants */
    AXIS_TOK,  /* token rows of the step */
    AXIS_OUT,  /* rows whose logits or hidden states are wanted */
    AXIS_ENC,  /* encoder rows */
    AXIS_EXP,  /* expert rows: token rows x experts per token */
    AXIS_SEQ,  /* sequences that want a pooled result */
    AXIS_COUNT
};

enum { TENSOR_ACT, TENSOR_WEIGHT, TENSOR_CONST };

typedef struct tensor {
    const char *name; /* "dec.3.attn.q": traces, errors, policies, adapters and taps use it */
    uint8_t kind, rank;
    uint8_t axis;      /* enum row_axis */
    int16_t layer;     /* -1 outside layers, then the encoder's, then the decoder's; the plan cuts by it */
    uint8_t block;     /* activations: 0 = float32; 32, 64: int8 with a scale for so many elements (tensor/act_q8.h) */
    int64_t dim[3];    /* without the row axis; weights: [n, k] matrices, [n] vectors */
    int64_t whole;     /* activations that are some columns of a row: elements of all of it; 0: these are all */
    uint32_t weight;   /* TENSOR_WEIGHT: index into program.weight */
    const float *data; /* TENSOR_CONST: values */
    uint64_t off;      /* activations: byte offset in the arena of their segment, by place */
} tensor;

/* One piece of a weight: output row n (0 <= n < rows) comes from source row
 *     row0 + (n / block) * stride + n % block
 * which covers plain ranges and every fused q/k/v order (all-q-then-k-v, per head, per group). Columns are taken whole.
 * `pairs` is head_dim or 0: the first `rotated` source rows of each head are in neighbour order (2i, 2i + 1), which
 * becomes half order (i, i + rotated / 2). `transpose`: the file holds [cols, rows] (Conv1D), of which cols rows from
 * col0 on are taken (experts and heads one after another). Values become w * mul + add, or exp(w) * mul + add. Pieces
 * stack along rows. */
typedef struct piece {
    uint32_t entry; /* index in the checkpoint, of this process as is where its bytes lie */
    const uint8_t *data;
    const char *name; /* of the tensor in the file: what two peers agree on; the checkpoint's memory. NULL: unnamed */
    dtype type;
    int64_t src_rows, src_cols; /* of the entry as it lies in the file */
    int64_t rows, row0, block, stride;
    int64_t col0; /* only with transpose */
    int32_t pairs, rotated;
    bool transpose;
    bool normalize_rows;         /* each row is divided by its length first (normalised heads) */
    bool exponential;            /* w becomes exp(w) first: files hold the logarithms of rates of decay */
    bool packed;                 /* the file holds panels (tensor/panel.h); the piece is the whole weight, unchanged */
    const stored_matrix *stored; /* NULL, or how rows of `type` are made of several tensors; owned by the checkpoint */
    float mul, add;
} piece;

/* Whether the piece changes values, not only places. */
static inline bool piece_changes(const piece *c)
{
    return c->normalize_rows || c->exponential || c->mul != 1 || c->add != 0;
}

typedef struct weight {
    const char *name; /* slot: "dec.3.attn.q" */
    piece *pieces;
    uint32_t n_piece;
    int64_t rows, cols; /* vectors: rows = n, cols = 1 */
    dtype want;         /* type to hold it in: DTYPE_NONE = as in the file */
    bool vector;        /* norm weights and biases: always held as float32 */
    int32_t parts;      /* runs of rows that are used one by one (experts) and may lie apart; 0 = one */
    bool packed;        /* held in the packed layout (tensor/panel.h) */
    float output_scale; /* products with it are multiplied by this afterwards, by an op of its own; 0 = nothing */
    ref factors;        /* a constant [parts, 1]: the output_scale of each expert of a stack; 0: there are none */
    ref order;          /* its columns are those of the tensor that this constant names, and an op of its own brings
                         * what they multiply into that order; 0: as they lie */
    /* NULL, or this is a window of that weight: its row n is row
     *     row0 + n / run * stride + n % run
     * of it, of which columns col0 … col0 + cols - 1 are taken, after the row was made (converted, normalised,
     * encoded). rows, cols, parts and packed are the window's, all else is that of the whole. */
    const struct weight *of;
    int64_t row0, run, stride, col0;
} weight;

/* Which rows and columns a window takes: as the members of weight of these names. run 0: a single run of rows; cols 0:
 * to the last. */
typedef struct weight_range {
    int64_t row0, rows, run, stride, col0, cols;
    int32_t parts;
} weight_range;

/* The weight of which w is a window, or w; row n of w in it. */
static inline const weight *weight_whole(const weight *w) { return w->of ? w->of : w; }
static inline int64_t weight_whole_row(const weight *w, int64_t n)
{
    return w->of ? w->row0 + n / w->run * w->stride + n % w->run : n;
}

/* Makes *at a window of `of`, which must outlive it. Given in *at: rows, row0, run and stride (run 0: a single run),
 * col0, cols (0: to the last), parts. ERR_SPEC: `of` is a window itself, the window reaches beyond it, its columns do
 * not fall on the column grain, or its parts are not equal or not whole panels where those of `of` are. */
int weight_window(weight *at, const weight *of, err *e);

/* Columns after which a window may begin, and end unless the weight does: whole blocks and tiles as it is held, whole
 * spans of panels that a file holds. A window may be wider than what is needed of it: foreign inputs are then 0. */
int64_t weight_column_grain(const weight *w);
/* Rows that a part of a window is a multiple of, where w has parts; elsewhere a preference, as borders of windows that
 * are multiples of it use panels of files where they lie, and fill none up. 1: the weight is never held in panels. */
int64_t weight_row_grain(const weight *w);

/* Where element (n, *) of a weight comes from: the piece, and the row in that piece's source. */
const piece *weight_row(const weight *w, int64_t n, int64_t *src_row);

/* The type to hold a weight in: as wanted, else as in the file; float32 when pieces differ or values change. */
dtype weight_held_type(const weight *w);

/* Rows row0 … row0 + rows - 1 where they lie in the file, if they do so as they are to be held, one after another:
 * blocks of any alignment, or whole panels. Else NULL. */
const uint8_t *weight_in_file(const weight *w, int64_t row0, int64_t rows);

/* Decodes row n into `to`, recipe applied: cols floats, but room for weight_whole(w)->cols. The definition that packers
 * must equal. */
void weight_decode_row(const weight *w, int64_t n, float *to);

/* What a sequence keeps between steps: pages with something for each position, or a slot of fixed size, which a step
 * reads whole and writes whole elsewhere (convolutions, recurrences). */
enum { STATE_PAGES, STATE_SLOT };
typedef struct state {
    uint8_t kind; /* STATE_* */
    uint8_t axis; /* whose positions its pages hold: AXIS_TOK or AXIS_ENC; of a slot AXIS_TOK */
    int16_t layer;
    int64_t slot_floats;         /* STATE_SLOT: of a sequence; the rest is about pages, and 0 */
    int32_t heads, k_dim, v_dim; /* key/value heads and their sizes in elements */
    int32_t window;              /* 0 = all */
    bool scratch;                /* not needed after the layer: layers of one shape share it */
    uint8_t group; /* index into program.group_window: states of equal window and axis share page tables */
} state;
enum { PAGE_TOKENS = 64, GROUP_MAX = 4 }; /* page = attention tile = unit of sharing, copy-on-write and transfer */

/* Parts of the program. SCORES: the scores of a classification head. */
enum entry { ENTRY_ENC, ENTRY_DEC, ENTRY_HEAD, ENTRY_POOL, ENTRY_SCORES, ENTRY_COUNT };

/* The weight or numbers that [tensors] binds to a slot; layers may share a weight, which then has several names. */
typedef struct bound {
    const char *name;    /* "dec.3.attn.q", "dec.3.attn.q.bias" */
    ref weight;          /* a tensor; 0: it is a list of numbers that ops have as parameters */
    const float *values; /* n of them */
    size_t n;
} bound;

/* A model as arrays, each with its length; whoever runs, cuts or prints one walks over them. */
typedef struct program {
    arena mem;
    const struct program *of; /* of a slice: the whole program */
    op *ops;
    tensor *tensors; /* [0] unused */
    weight *weights;
    state *states;
    rope_set *ropes; /* cos/sin tables, one per distinct (theta, scaling, dims) */
    bound *bounds;   /* in the order in which they were asked for */
    uint32_t n_op, n_tensor, n_weight, n_state, n_rope, n_bound;
    struct {
        uint32_t op0, op1; /* [op0, op1): empty when the model has no such part */
        ref in, out;
    } entries[ENTRY_COUNT];
    int32_t group_window[GROUP_MAX];
    uint8_t group_axis[GROUP_MAX]; /* AXIS_TOK, AXIS_ENC */
    bool needs_whole_sequence;     /* some row sees later ones: the token rows of a sequence must all be in one step */
    bool labels;                   /* the head's rows are labels of tokens, not logits over the vocabulary */
    uint32_t n_group;
    uint32_t *cuts; /* ops at which the program can be split: no state is between its write and its read, and one
                       activation lives, the encoder's result (entries[ENTRY_ENC].out) not counted */
    uint32_t n_cut;
    int64_t dim, vocab; /* width of the hidden state; number of token ids: columns of the logits, unless labels */
    int32_t n_layer;    /* of the decoder, or of a model that has only one part */
    int32_t n_enc;      /* layers of an encoder in front of a decoder; in ops and tensors they are numbered first */
    int32_t n_used;     /* experts of a token row, the same in all layers: AXIS_EXP = n_used * AXIS_TOK; 0 = none */
    ref *hidden;        /* [n_layer + 1]: input of layer 0, outputs of layers, the last after the final norm */
    uint8_t hash[SHA256_BYTES]; /* what the model is, by program_identify; texts show its first 8 bytes */
} program;

/* ---- building: append to a program. They return 0 / NULL and set e when memory is short or a shape does not fit. */
program *program_new(err *e);
void program_free(program *p); /* NULL ok */
ref program_tensor(program *p, const tensor *t, err *e);
uint32_t program_weight(program *p, const weight *w, err *e); /* index; UINT32_MAX on error */
int program_state(program *p, const state *s, err *e);        /* index, or negative code; assigns the page group */
int program_op(program *p, const op *o, err *e);              /* checks operands and shapes */
/* Keeps what a slot was given; `name` and values are copied. */
int program_bound(program *p, const bound *b, err *e);
/* Index of the table with these parameters for positions 0 … ctx-1, made when there is none yet; or a negative code. */
int program_rope(program *p, const rope_params *rp, int ctx, err *e);

/* A program without ops that takes some of those of p (program_op), perhaps changed, for one device. It has tensors,
 * with the numbers of p, and weights of its own; constants, pieces, states and tables are those of p, which must
 * outlive it. NULL on error. */
program *program_slice(const program *p, err *e);
/* Adds a window (weight_window) of weight `of` of the whole program to a slice of it. Index of the new weight;
 * UINT32_MAX on error. */
uint32_t program_window(program *slice, uint32_t of, const weight_range *at, err *e);
/* Says that what follows in a slice comes from op i of p on: entries and cut points are carried over. The op0 or op1
 * of an entry that begins or ends in another slice is UINT32_MAX. */
void program_slice_mark(program *slice, const program *p, uint32_t i);

/* Finds the cut points by liveness, computes the hash, checks single assignment. Call once when all ops are there. */
int program_finish(program *p, err *e);

/* Sets p->hash: SHA-256 over `spec` (text; program_finish: empty, the program alone), the names, types and shapes of
 * tensors of the checkpoint, recipes of weights, ops with their parameters, constants, states and ropes. Where a tensor
 * lies and what its bytes are does not enter; of constants the values do, and tables of positions have as many rows as
 * the context. Called before a pass changes the program. */
void program_identify(program *p, span spec);
void program_identity(const program *p, span spec, uint8_t out[SHA256_BYTES]); /* the same, elsewhere */

/* Marks in open[i], [n_op + 1] and cleared before, that a state is open before op i: written, and still to be read. */
void program_open_states(const program *p, uint8_t *open);

/* Hash of an op with its parameters and tensor numbers; it does not depend on where weights lie. */
uint64_t program_op_hash(const program *p, uint32_t i);

/* The program as text: a line of totals; one op, with '|' at cut points. */
bool program_dump_head(const program *p, buf *out);
bool program_dump_op(const program *p, uint32_t i, buf *out);

/* Bytes of one slot: the STATE_SLOT of all ops, and so many rows apart; 0: the program has none. */
uint64_t program_slot_bytes(const program *p, int rows);
/* Floats of a row that a slot of this op keeps apart: its operands that are activations, one after another. */
int64_t program_slot_row(const program *p, const op *o);
/* Whether an op stores keys and values in state `number`; layers may share one. */
bool program_stores(const program *p, uint32_t number);
/* Elements of one row of an activation, or of a whole weight or constant. */
static inline int64_t tensor_count(const tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->dim[i];
    return n;
}
/* Elements of the row of which an activation has all or some columns. */
static inline int64_t tensor_whole(const tensor *t) { return t->whole ? t->whole : tensor_count(t); }
/* Bytes of one row of an activation. */
uint64_t tensor_row_bytes(const tensor *t);
/* Weights by which an op multiplies a row of its input; 0: it has no matrix. */
int64_t program_row_products(const program *p, const op *o);

/* Bytes the recipe reads from files; of a window those of its rows and columns. */
uint64_t weight_file_bytes(const weight *w);
