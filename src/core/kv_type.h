/* kv_type.h - element types of the KV cache and their sizes.
 *
 * F32 and F16 hold floats. The other three hold integer codes by blocks of one head of one token (the last block may be
 * shorter), each block with its own scale, so that the cache of a token does not depend on other tokens:
 *
 *     q8   keys: 8 bits over the block's range (scale, base); values: 8 bits, signed (scale); blocks of 64
 *     q4   keys and values: 4 bits over the range (scale, base); blocks of 32
 *     i16  keys: 13 bits, signed, values: 12 (scale: the maximum magnitude); one block a head, 16 bits a code
 *
 * Their dtypes are DTYPE_Q8_B64, DTYPE_Q4_B32 and DTYPE_I16. i16 takes as many bytes as f16 and suits models with int8
 * activations: attention is twice as fast, and its rounding (2^-13 and 2^-12 of a head's maximum) is small beside
 * theirs. A query gets fewer bits the longer its head is: 512 steps up to the maximum at KV_I16_DIM elements; longer
 * heads need f16. Keys are coded over their range because they cause most of the error: on stories260K that takes the
 * mean KL of 8-bit keys from 2.8e-3 to 1.3e-3. */
#pragma once
#include "core/program.h"
#include "tensor/dtype.h"

#include <stdbool.h>
#include <stdint.h>

enum { KV_I16_DIM = 1024 };

static inline bool kv_is_codes(dtype t) { return t == DTYPE_Q8_B64 || t == DTYPE_Q4_B32 || t == DTYPE_I16; }
static inline int kv_bits(dtype t) { return t == DTYPE_I16 ? 16 : t == DTYPE_Q8_B64 ? 8 : 4; }
static inline int64_t kv_block(dtype t, int64_t dim) { return t == DTYPE_I16 ? dim : t == DTYPE_Q8_B64 ? 64 : 32; }
static inline int64_t kv_blocks(dtype t, int64_t dim) { return (dim + kv_block(t, dim) - 1) / kv_block(t, dim); }

/* Elements of a head that have codes: keys are padded to what one instruction multiplies (2 of i16, else 4), values to
 * 16; q4 to twice that, as a byte holds two. */
static inline int64_t kv_padded(dtype t, int64_t dim, bool values)
{
    int64_t each = (values ? 16 : t == DTYPE_I16 ? 2 : 4) * (t == DTYPE_Q4_B32 ? 2 : 1);
    return (dim + each - 1) / each * each;
}

/* Bytes of codes of one tile (PAGE_TOKENS tokens of one head). */
static inline uint64_t kv_code_bytes(dtype t, int64_t dim, bool values)
{
    return (uint64_t)(kv_padded(t, dim, values) * kv_bits(t) / 8) * PAGE_TOKENS;
}

/* Bytes of one tile, a multiple of 64. */
static inline uint64_t kv_tile_bytes(dtype t, int64_t dim, bool values)
{
    if (!kv_is_codes(t)) return (uint64_t)dim * PAGE_TOKENS * dtype_info[t].bytes;
    uint64_t scales = (uint64_t)kv_blocks(t, dim) * PAGE_TOKENS * sizeof(uint16_t);
    bool base = t == DTYPE_Q4_B32 || (t == DTYPE_Q8_B64 && !values);
    return kv_code_bytes(t, dim, values) + scales * (base ? 2 : 1);
}

/* Where the last `percent` % begin, rounded up, of the states in which a program stores keys and values: on a device
 * that reads memory of the host, pages of these lie there (cache_options.host). */
static inline uint32_t kv_host_from(const program *p, int percent)
{
    uint32_t n = 0, from = p->n_state;
    for (uint32_t i = 0; i < p->n_state; i++) n += program_stores(p, i);
    for (uint32_t left = (n * (uint32_t)percent + 99) / 100; left; left -= program_stores(p, from)) from--;
    return from;
}

/* Bytes of one page of a state. */
static inline uint64_t kv_page_bytes(const state *s, dtype k_type, dtype v_type)
{
    return (uint64_t)s->heads * (kv_tile_bytes(k_type, s->k_dim, false) + kv_tile_bytes(v_type, s->v_dim, true));
}
