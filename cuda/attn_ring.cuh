/* attn_ring.cuh - where a warp of attention finds keys and values: in memory or, for few rows, in a ring of shared
 * memory.
 *
 * A ring is of one warp, which asks for what it takes ATTN_DEPTH pieces before (cp.async) and waits for no other warp. A
 * piece is up to 2048 bytes, from rows of 256 bytes of the warp's tile of keys: eight rows, of words half of sixteen
 * rows, with scales of what ends there. Then come scales of values of that tile, of eight blocks; then sixteen elements
 * (of 4 bits: 32) of the values of a tile, of bytes of two tiles. Of floats: rows of keys of the warp's tile, and 128
 * elements of some of its values. Pieces come in the order in which they are taken, range after range: so the next
 * range is on its way while a block joins the tiles of this one. What is of a tile that nobody sees stays empty.
 *
 * In the ring rows lie a little further apart than they are long: what lanes read at once is in different banks, or two
 * by two. Behind the last row is what was there before: codes of queries are 0 for it. */
#pragma once
#include "cuda/attn_tile.cuh"

/* What a block has to do, in shared memory: so many units of a sequence, of which some see keys from `first` to `last`,
 * for a head of keys; every step-th range of them, another block the others; its place among those of other rows. */
typedef struct attn_work {
    int32_t n, seq, kv, first, last, step, ranges, place;
} attn_work;

/* What pieces of a type of cache are. */
template <int T> struct attn_pieces {
    static constexpr bool coded = T != DTYPE_F32 && T != DTYPE_F16;
    static constexpr int bits = T == DTYPE_I16 ? 16 : T == DTYPE_Q8_B64 ? 8 : 4;     /* of codes */
    static constexpr int elements = bits == 4 ? 32 : 16, tiles = bits == 16 ? 1 : 2; /* of values */
    static constexpr int blocks = bits == 4 ? 2 : 1;                                 /* of keys, whose scales come */
    static constexpr int size = T == DTYPE_F16 ? 2 : 4;                              /* bytes of a float */
    static constexpr int row = coded ? 256 : PAGE_TOKENS * size;                     /* bytes of a row of keys */
    static constexpr int values = ATTN_PIECE / (ATTN_WIDTH * size);                  /* that are floats */
};

/* Tiles where they lie. */
template <int T> struct attn_memory {
    typedef attn_pieces<T> P;
    static constexpr bool ring = false;
    static constexpr int key_pitch = P::row;

    __device__ __forceinline__ attn_memory(const attn_args *, const attn_work *, uint8_t *, int) {}
    __device__ __forceinline__ void take() const {}
    __device__ __forceinline__ void give() const {}
    __device__ __forceinline__ void skip(int) const {}
    /* Rows of keys of a piece; of words of 16 bits those of half `half`. */
    __device__ __forceinline__ const uint8_t *key_rows(const uint8_t *tile, int piece) const { return tile + piece * ATTN_PIECE; }
    __device__ __forceinline__ const uint8_t *key_words(const uint8_t *tile, int piece, int half) const
    {
        return tile + piece * 2 * ATTN_PIECE + half * P::row / 2;
    }
    __device__ __forceinline__ const uint16_t *word_scales(const kv_codes *f, uint8_t *tile, int half) const
    {
        return kv_scales(f, tile) + half * PAGE_TOKENS / 2;
    }
    /* Of block b. */
    __device__ __forceinline__ const uint16_t *key_scales(const kv_codes *f, uint8_t *tile, int b) const
    {
        return kv_scales(f, tile) + b * PAGE_TOKENS;
    }
    __device__ __forceinline__ const uint16_t *key_bases(const kv_codes *f, uint8_t *tile, int b) const
    {
        return kv_bases(f, tile) + b * PAGE_TOKENS;
    }
    __device__ __forceinline__ const uint16_t *value_scales(const kv_codes *f, uint8_t *tile, int b) const
    {
        return key_scales(f, tile, b);
    }
    __device__ __forceinline__ const uint16_t *value_bases(const kv_codes *f, uint8_t *tile, int b) const
    {
        return key_bases(f, tile, b);
    }
    /* Codes of values from element d on, and bytes from row to row of them; floats of key `key`. */
    __device__ __forceinline__ const uint8_t *value_codes(const uint8_t *tile, int, int d) const
    {
        return tile + d * 64 / P::elements;
    }
    __device__ __forceinline__ int value_pitch(int row) const { return row; }
    __device__ __forceinline__ const uint8_t *value_floats(const uint8_t *tile, int row, int key, int d) const
    {
        return tile + key * row + d * P::size;
    }
};

/* Sixteen bytes of each lane, N times, TO bytes apart in the ring and FROM in memory, or `from_apart`. */
template <int N, int TO, int FROM> __device__ __forceinline__ void ring_copies(uint32_t to, const uint8_t *from, int from_apart = 0)
{
    if constexpr (N > 1) ring_copies<N - 1, TO, FROM>(to, from, from_apart);
    asm volatile("cp.async.cg.shared.global [%0 + %2], [%1 + %3], 16;" ::"r"(to), "l"(from + (N - 1) * from_apart),
                 "n"((N - 1) * TO), "n"((N - 1) * FROM)
                 : "memory");
}
/* The first n of them. */
template <int N, int TO, int FROM> __device__ __forceinline__ void ring_some(uint32_t to, const uint8_t *from, int n)
{
    if constexpr (N > 1) ring_some<N - 1, TO, FROM>(to, from, n);
    if (N <= n) ring_copies<1, 0, 0>(to + (N - 1) * TO, from + (N - 1) * FROM);
}

/* Tiles as they come through the ring of a warp. */
template <int T> struct attn_ring {
    typedef attn_pieces<T> P;
    static constexpr bool ring = true;
    static constexpr int slot_bytes = ATTN_SLOT(T), key_pitch = P::coded ? ATTN_KEY_PITCH(T) : P::row,
                         scales_at = ATTN_SCALES_AT, tile_bytes = 16 * ATTN_VALUE_PITCH; /* of values of bytes */
    /* Lanes that copy a row of keys, of which words come by halves, and a row of values. */
    static constexpr unsigned key_lanes = P::row / 16 / (P::bits == 16 && P::coded ? 2 : 1),
                              value_lanes = P::coded ? 4 : ATTN_WIDTH * P::size / 16;

    const attn_args *a;
    const attn_work *of;
    uint8_t *slots;             /* of this warp */
    uint32_t key_to, value_to;  /* where a lane copies to, in slot 0 */
    int32_t slot;               /* bytes: of that at hand, which is asked for next too */
    int32_t piece, all, range;  /* piece: the next of `all` of this range */
    int32_t page;               /* lane t: of tile t of the range; -1: none */
    const uint8_t *own, *first; /* what a lane copies: of the warp's tile of keys, NULL: none; of values of page 0 */

    static __device__ __forceinline__ unsigned lane() { return threadIdx.x % 32; }
    static __device__ __forceinline__ int warp() { return (int)(threadIdx.x / 32); }

    /* Begins with range r. */
    __device__ __forceinline__ attn_ring(const attn_args *a, const attn_work *of, uint8_t *shared, int r) : a(a), of(of), slot(0)
    {
        const int groups = (a->pieces.values - warp() + ATTN_WARPS - 1) / ATTN_WARPS,
                  row = P::coded ? (int)a->vf.padded * 64 / P::elements : a->kv.v_dim * P::size;
        all = a->pieces.keys + a->pieces.scales +
              (P::coded ? groups * (ATTN_TILES / P::tiles) : a->pieces.values * (PAGE_TOKENS / P::values));
        slots = shared + a->at.ring + warp() * ATTN_DEPTH * slot_bytes;
        key_to = (uint32_t)__cvta_generic_to_shared(slots) + lane() / key_lanes * key_pitch + lane() % key_lanes * 16;
        value_to = (uint32_t)__cvta_generic_to_shared(slots) + lane() / value_lanes * (P::coded ? ATTN_VALUE_PITCH : value_lanes * 16) +
                   lane() % value_lanes * 16;
        first = a->kv.v + (uint64_t)of->kv * a->v_tile + lane() / value_lanes * row + lane() % value_lanes * 16 +
                (P::coded ? warp() * 64 : 0);
        enter(r);
#pragma unroll 1
        for (int i = 0; i < ATTN_DEPTH; i++) bring();
    }
    __device__ __forceinline__ void enter(int r)
    {
        const int at = (of->first / ATTN_RANGE + r) * ATTN_RANGE + (int)lane() * PAGE_TOKENS;
        range = r;
        piece = 0;
        page = -1;
        if (r < of->ranges && lane() < ATTN_TILES && at <= of->last && at + PAGE_TOKENS > of->first)
            page = step_page(a->st, a->group, of->seq, at / PAGE_TOKENS);
        const int mine = __shfl_sync(~0u, page, warp());
        own = mine < 0 ? NULL
                       : a->kv.k + (uint64_t)mine * a->kv.stride + (uint64_t)of->kv * a->k_tile + lane() / key_lanes * P::row +
                             lane() % key_lanes * 16;
    }
    __device__ __forceinline__ void bring_key_words() const
    {
        const int parts = a->pieces.keys / 2, half = piece < parts ? 0 : 1, s = piece - half * parts,
                  rows = (int)a->kf.bytes / P::row - s * 16;
        const uint8_t *from = own + (s * 16 * P::row + half * P::row / 2);
        if (s + 1 == parts && lane() < 4) /* scales of 32 keys */
            ring_copies<1, 0, 0>(key_to + slot + scales_at, own + a->kf.bytes + half * P::row / 4);
        if (rows >= 16) ring_copies<4, 4 * key_pitch, 4 * P::row>(key_to + slot, from);
        else ring_some<4, 4 * key_pitch, 4 * P::row>(key_to + slot, from, (rows - (int)(lane() / key_lanes) + 3) / 4);
    }
    __device__ __forceinline__ void bring_key_bytes() const
    {
        constexpr int apart = 32 / key_lanes * key_pitch;
        const int bytes = P::coded ? (int)a->kf.bytes : a->kv.k_dim * P::row, left = bytes - piece * ATTN_PIECE;
        const uint8_t *from = own + piece * ATTN_PIECE;
        if (P::coded && (P::bits == 4 || piece % 2 || piece + 1 == a->pieces.keys)) {
            const int kind = (int)lane() / 8 / P::blocks, blocks = (int)a->kf.blocks, /* kind 1: bases */
                b = P::bits == 8 ? piece / 2 : piece * 2;
            if (kind < 2 && b + (int)lane() / 8 % P::blocks < blocks)
                ring_copies<1, 0, 0>((uint32_t)__cvta_generic_to_shared(slots) + slot + scales_at + lane() * 16,
                                     own + bytes + (b + kind * (blocks - P::blocks)) * 128);
        }
        if (left >= ATTN_PIECE) ring_copies<4, apart, 512>(key_to + slot, from);
        else ring_some<4, apart, 512>(key_to + slot, from, (left - (int)lane() * 16 + 511) / 512);
    }
    /* A tile of values, as `first` is of page 0; NULL: nobody sees it. */
    __device__ __forceinline__ const uint8_t *values_of(int tile) const
    {
        const int at = __shfl_sync(~0u, page, tile);
        return at < 0 ? NULL : first + (uint64_t)at * a->kv.stride;
    }
    __device__ __forceinline__ void bring_scales() const
    {
        const int mine = __shfl_sync(~0u, page, warp());
        if (mine < 0) return;
        const int at = (piece - a->pieces.keys) * ATTN_SCALES * 128 + (int)lane() * 16, bytes = (int)a->vf.blocks * 128,
                  n = (bytes - at + 511) / 512;
        const uint8_t *from = a->kv.v + (uint64_t)mine * a->kv.stride + (uint64_t)of->kv * a->v_tile + a->vf.bytes + at;
        const uint32_t to = (uint32_t)__cvta_generic_to_shared(slots) + slot + lane() * 16;
        ring_some<2, 512, 512>(to, from, n);
        if (P::bits == 4) ring_some<2, 512, 512>(to + ATTN_SCALES * 128, from + bytes, n);
    }
    __device__ __forceinline__ void bring_value_codes(unsigned n) const
    {
        constexpr unsigned each = ATTN_TILES / P::tiles;
        const int apart = 8 * ((int)a->vf.padded * 64 / P::elements);
#pragma unroll
        for (int t = 0; t < P::tiles; t++) {
            const uint8_t *tile = values_of(n % each * P::tiles + t);
            if (tile)
                ring_copies<4 / P::tiles, 8 * ATTN_VALUE_PITCH, 0>(value_to + slot + t * tile_bytes, tile + n / each * ATTN_WARPS * 64,
                                                                  apart);
        }
    }
    __device__ __forceinline__ void bring_value_floats(unsigned n) const
    {
        constexpr unsigned each = PAGE_TOKENS / P::values, width = value_lanes * 16;
        const uint8_t *tile = values_of(warp());
        const unsigned row = (unsigned)a->kv.v_dim * P::size, column = n / each * width;
        if (tile && column + lane() % value_lanes * 16 < row)
            ring_copies<4, 512, 0>(value_to + slot, tile + (n % each * P::values * row + column), (int)(32 / value_lanes * row));
    }
    /* Asks for the next piece. */
    __device__ __forceinline__ void bring()
    {
        if (range < of->ranges) {
            const int n = piece - a->pieces.keys - a->pieces.scales;
            if (piece < a->pieces.keys) {
                if (own && P::coded && P::bits == 16) bring_key_words();
                else if (own) bring_key_bytes();
            } else if (P::coded && n < 0) bring_scales();
            else if (P::coded) bring_value_codes((unsigned)n);
            else bring_value_floats((unsigned)n);
            if (++piece == all) enter(range + of->step);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        slot = slot == (ATTN_DEPTH - 1) * slot_bytes ? 0 : slot + slot_bytes;
    }

    __device__ __forceinline__ void take() const
    {
        asm volatile("cp.async.wait_group %0;" ::"n"(ATTN_DEPTH - 1) : "memory");
        __syncwarp();
    }
    __device__ __forceinline__ void give()
    {
        __syncwarp();
        bring();
    }
    __device__ __forceinline__ void skip(int n)
    {
#pragma unroll 1
        for (int i = 0; i < n; i++) take(), give();
    }
    __device__ __forceinline__ const uint16_t *halves(int at) const { return (const uint16_t *)(slots + slot + at); }
    __device__ __forceinline__ const uint8_t *key_rows(const uint8_t *, int) const { return slots + slot; }
    __device__ __forceinline__ const uint8_t *key_words(const uint8_t *, int, int) const { return slots + slot; }
    __device__ __forceinline__ const uint16_t *word_scales(const kv_codes *, uint8_t *, int) const { return halves(scales_at); }
    __device__ __forceinline__ const uint16_t *key_scales(const kv_codes *, uint8_t *, int b) const
    {
        return halves(scales_at + b % P::blocks * 128);
    }
    __device__ __forceinline__ const uint16_t *key_bases(const kv_codes *, uint8_t *, int b) const
    {
        return halves(scales_at + (P::blocks + b % P::blocks) * 128);
    }
    __device__ __forceinline__ const uint16_t *value_scales(const kv_codes *, uint8_t *, int b) const
    {
        return halves(b % ATTN_SCALES * 128);
    }
    __device__ __forceinline__ const uint16_t *value_bases(const kv_codes *, uint8_t *, int b) const
    {
        return halves((ATTN_SCALES + b % ATTN_SCALES) * 128);
    }
    __device__ __forceinline__ const uint8_t *value_codes(const uint8_t *, int tile, int) const
    {
        return slots + slot + tile % P::tiles * tile_bytes;
    }
    __device__ __forceinline__ int value_pitch(int) const { return ATTN_VALUE_PITCH; }
    __device__ __forceinline__ const uint8_t *value_floats(const uint8_t *, int, int key, int d) const
    {
        return slots + slot + (key % P::values * ATTN_WIDTH + d % ATTN_WIDTH) * P::size;
    }
};
