/* cuda_attn.c - ATTN by the kernel of attn.cuh: its parameters, and how blocks share rows, heads and ranges of keys.
 *
 * Shapes depend on numbers of rows alone, as graphs do; how many keys there are, blocks see for themselves. */
#include "cuda/cuda_args.h"
#include "cuda/cuda_codes.h"
#include "cuda/cuda_state.h"

/* SHARED_MAX: bytes of dynamic shared memory that every device gives without a request; SHARED_OWN: the maximum of a
 * kernel's static shared memory, which reduces the dynamic shared memory that the kernel can request. BLOCKS: the
 * number of blocks that keeps a large device busy. SPLITS: the maximum number of blocks that share the keys of a row.
 * FEW_ROWS: the maximum number of rows at which a block has 8 units, those of one tensor instruction. SEQUENCES: the
 * maximum number of blocks of rows that are added because a sequence may begin within a block. */
enum { SHARED_MAX = 44 << 10, SHARED_OWN = 2048, BLOCKS = 264, SPLITS = 32, FEW_ROWS = 64, SEQUENCES = 256 };

static int64_t ring_most(const cuda_kernels *k) { return k->shared_optin - SHARED_OWN; }

int cuda_attn_load(cuda_weights *w, err *e)
{
    int rc = OK;
#define X(name, type)                                                                                                  \
    if (!rc)                                                                                                           \
        rc = cuda_done(                                                                                                \
            &w->q,                                                                                                     \
            w->q.cu->cuFuncSetAttribute(w->kernels.attn_few_##name, CU_SHARED_DYNAMIC, (int)ring_most(&w->kernels)),   \
            "preparing a kernel", e);
    ATTN_TYPES(X)
#undef X
    return rc;
}

/* Whether keys and values of few rows come through rings: where these fit into shared memory, and where copies of
 * sixteen bytes begin at rows of values. */
static bool fit_ring(const cuda_kernels *k, const kv_store *kv, attn_shape *a)
{
    *a = (attn_shape){.units = 8, .tiles = ATTN_TILES, .ring = true};
    const bool codes = kv_is_codes(kv->k_type), aligned = kv->v_dim * (int)dtype_info[kv->v_type].bytes % 16 == 0;
    return (codes || aligned) && attn_room_of(kv->k_type, kv->k_dim, kv->v_dim, a).bytes <= ring_most(k);
}

static attn_parts count_pieces(const kv_store *kv, const kv_codes *kf, const kv_codes *vf)
{
    const bool codes = kv_is_codes(kv->k_type);
    const int64_t bytes = codes ? kf->bytes : (int64_t)kv->k_dim * PAGE_TOKENS * dtype_info[kv->k_type].bytes;
    const int elements = !codes ? ATTN_WIDTH : kv->v_type == DTYPE_Q4_B32 ? 32 : 16;
    attn_parts n = {.keys = (int32_t)cuda_blocks(bytes, ATTN_PIECE),
                    .values = (int32_t)cuda_blocks(kv->v_dim, elements)};
    if (kv->k_type == DTYPE_I16) n.keys = 2 * (int32_t)cuda_blocks(bytes, 2 * ATTN_PIECE); /* of halves of rows */
    if (codes) n.scales = (int32_t)cuda_blocks(vf->blocks, ATTN_SCALES);
    return n;
}

/* Units and tiles at a time that fit into shared memory, of floats all tiles; false: none do. */
static bool fit_shape(const kv_store *kv, int units, attn_shape *a)
{
    *a = (attn_shape){.units = units};
    const int least = kv_is_codes(kv->k_type) ? 1 : ATTN_TILES;
    for (; a->units >= 8; a->units /= 2)
        for (a->tiles = ATTN_TILES; a->tiles >= least; a->tiles /= 2)
            if (attn_room_of(kv->k_type, kv->k_dim, kv->v_dim, a).bytes <= SHARED_MAX) return true;
    return false;
}

/* Blocks for `rows` rows of all heads of an op. */
static bool choose_shape(const cuda_device *d, const op *o, int rows, attn_shape *a, cuda_grid *g)
{
    const kv_store *kv = &d->kv[o->state];
    const int per_kv = attn_per_kv(o, kv->heads), last = o->u.attn.head0 + o->u.attn.heads - 1;
    const bool few = rows <= FEW_ROWS;
    if (!(few && fit_ring(&d->w->kernels, kv, a)) && !fit_shape(kv, few ? 8 : 16, a)) return false;
    a->heads = per_kv < a->units ? per_kv : a->units;
    a->rows = a->units / a->heads;
    a->chunks = (int)cuda_blocks(per_kv, a->heads);
    a->first_kv = o->u.attn.head0 / per_kv;
    a->row_blocks = (int)cuda_blocks(rows, a->rows);
    const int heads = (last / per_kv - a->first_kv + 1) * a->chunks, groups = rows * heads,
              more = a->rows == 1 || rows == 1 ? 0
                     : rows < SEQUENCES        ? rows
                                               : SEQUENCES;
    const uint64_t floats = (uint64_t)a->units * (uint64_t)(2 + kv->v_dim), x = (uint64_t)(a->row_blocks + more),
                   there = d->scratch_floats * (uint64_t)d->scratch_workers;
    a->splits = groups >= BLOCKS ? 1 : BLOCKS / groups < SPLITS ? BLOCKS / groups : SPLITS;
    const uint64_t slots = there / (floats * x * (uint64_t)heads);
    a->slots = slots < INT32_MAX ? (int32_t)slots : INT32_MAX;
    a->part = (int64_t)floats;
    a->parts = a->slots * a->part;
    if (x * (uint64_t)heads > CUDA_TURNS) a->splits = 1;
    a->head_blocks = heads;
    *g = (cuda_grid){(int64_t)x, heads * a->splits, ATTN_THREADS,
                     (uint64_t)attn_room_of(kv->k_type, kv->k_dim, kv->v_dim, a).bytes};
    return true;
}

/* NULL: there is none for these types. */
static cu_function kernel_of(const cuda_device *d, const kv_store *kv, bool ring)
{
    const cuda_kernels *k = &d->w->kernels;
#define X(name, type)                                                                                                  \
    if (kv->k_type == (type) && kv->v_type == (type)) return ring ? k->attn_few_##name : k->attn_##name;
    ATTN_TYPES(X)
#undef X
    return NULL;
}

int cuda_attn_start(cuda_device *d, const cuda_segment *s, const step *st, const cuda_ops *of, bool *done, err *e)
{
    const program *p = d->p;
    const op *o = &p->ops[of->first];
    const kv_store *kv = &d->kv[o->state];
    const int bias = o->u.attn.bias;
    const bool places = bias == BIAS_PLACES;
    const float *biases = cuda_at(d, s, o->in[ATTN_BIAS]), *sinks = cuda_at(d, s, o->in[ATTN_SINKS]);
    cuda_grid grid;
    attn_args a = {.st = cuda_step_at(s),
                   .q = cuda_at(d, s, o->in[ATTN_Q]),
                   .slopes = attn_has_slopes(o) ? biases : NULL,
                   .buckets = bias == BIAS_BUCKETS ? biases : NULL,
                   .own_places = places ? biases : NULL,
                   .key_places = places ? sinks : NULL,
                   .sinks = places ? NULL : sinks,
                   .table = cuda_at(d, s, o->in[ATTN_TABLE]),
                   .out = cuda_at(d, s, o->out),
                   .parts = (float *)(uintptr_t)d->scratch,
                   .turns = (uint32_t *)(uintptr_t)d->turns,
                   .n_codes = of->n - 1,
                   .kv = *kv,
                   .o = *o,
                   .group = p->states[o->state].group,
                   .axis = p->tensors[o->out].axis,
                   .key_axis = p->states[o->state].axis,
                   .reach = o->in[ATTN_TABLE] ? (int)(tensor_count(&p->tensors[o->in[ATTN_TABLE]]) / 2) : 0,
                   .places = places ? attn_places_of(p, o) : 0,
                   .per_kv = attn_per_kv(o, kv->heads)};
    *done = kernel_of(d, kv, false) && choose_shape(d, o, st->n[a.axis], &a.shape, &grid);
    if (!*done) return OK;
    a.at = attn_room_of(kv->k_type, kv->k_dim, kv->v_dim, &a.shape);
    a.kf = kv_codes_of(kv->k_type, kv->k_dim, false);
    a.vf = kv_codes_of(kv->v_type, kv->v_dim, true);
    a.pieces = count_pieces(kv, &a.kf, &a.vf);
    a.k_tile = kv->k_page / (uint64_t)kv->heads;
    a.v_tile = kv->v_page / (uint64_t)kv->heads;
    cuda_codes_take(d, s, of->first + 1, of->n - 1, a.codes);
    return cuda_launch_fast(&d->q, kernel_of(d, kv, a.shape.ring), grid, (void *[]){&a}, e);
}
