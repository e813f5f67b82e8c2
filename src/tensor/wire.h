/* wire.h - codecs of activations between devices: rows of floats in fewer bytes.
 *
 * A row is coded in groups of consecutive elements, the last of which may be shorter; a group never reaches into the
 * next row, so that a row's bytes do not depend on what else is sent. A group is its head, then its codes:
 *
 *     f32, f16     no head; the elements themselves
 *     int8, int4   f16 step, 8-bit zero point; element = (code - zero point) * step, the range of the group widened to
 *                  hold 0, which is exact (Flash Communication, section 3.1, has a minimum instead: it errs 1.4 times
 *                  as much beside outliers, and takes a byte more)
 *     int8s, int4s f16 step; the zero point is the middle code: symmetric, to compare
 *     q8           f32 scale, signed codes: the blocks of 64 of int8 activations (act_q8.h), whatever --codec-group is
 *
 * Codes of 4 bits: of each 32 elements (the last: m), byte i has element i, and 16 + i ((m + 1) / 2 + i) above it. A
 * step is rounded up, so that no value is clipped. A group that cannot be coded (infinite, NaN, a step beyond f16)
 * has step NaN, and all its elements are decoded as NaN; f16 overflows to infinity. */
#pragma once
#include "base/gpu.h"

#include <stdbool.h>
#include <stdint.h>

/* X(id, name, bits of a code, bytes of a group's head); the first ones are those of --wire. */
#define WIRE_CHOICE_LIST(X)                                                                                            \
    X(F32, "f32", 32, 0)                                                                                               \
    X(F16, "f16", 16, 0)                                                                                               \
    X(INT8, "int8", 8, 3)                                                                                              \
    X(INT4, "int4", 4, 3)
#define WIRE_LIST(X)                                                                                                   \
    WIRE_CHOICE_LIST(X)                                                                                                \
    X(INT8S, "int8s", 8, 2)                                                                                            \
    X(INT4S, "int4s", 4, 2)                                                                                            \
    X(Q8, "q8", 8, 4)

typedef enum wire_type {
#define X(id, name, bits, head) WIRE_##id,
    WIRE_LIST(X)
#undef X
        WIRE_COUNT
} wire_type;

typedef struct wire_info {
    const char *name;
    int bits, head;
} wire_info;
extern GPU_DATA const wire_info wire_infos[WIRE_COUNT];

enum { WIRE_GROUP_MIN = 32, WIRE_GROUP = 128, WIRE_GROUP_MAX = 4096, WIRE_Q8_GROUP = 64 };

/* What a reduction codes with: partial sums, then their sum. "int6" is int4, then int8. */
typedef struct wire_pair {
    const char *name;
    wire_type partial, sum;
} wire_pair;
extern const wire_pair wire_pairs[]; /* ends with name NULL */

static inline int64_t wire_group(wire_type t, int64_t group) { return t == WIRE_Q8 ? WIRE_Q8_GROUP : group; }

/* Bytes of a group of n elements. */
static inline int64_t wire_group_bytes(wire_type t, int64_t n)
{
    const int bits = wire_infos[t].bits;
    return wire_infos[t].head + (bits == 4 ? n / 32 * 16 + (n % 32 + 1) / 2 : n * (bits / 8));
}

/* Bytes of n elements of a row, from the border of a group on. */
static inline int64_t wire_bytes(wire_type t, int64_t group, int64_t n)
{
    group = wire_group(t, group);
    const int64_t rest = n % group;
    return n / group * wire_group_bytes(t, group) + (rest ? wire_group_bytes(t, rest) : 0);
}

/* n elements of one row, from the border of a group on, up to another or the end of the row. */
typedef struct wire_ops {
    void (*encode)(wire_type t, int64_t group, const float *x, int64_t n, uint8_t *to);
    void (*decode)(wire_type t, int64_t group, const uint8_t *from, int64_t n, float *x);
    void (*add)(wire_type t, int64_t group, const uint8_t *from, int64_t n, float *x); /* x += decoded */
} wire_ops;
extern const wire_ops wire_reference; /* the definition; vectors (cpu/simd/v_wire.h) equal it in every bit */

/* int8s, int4s; the largest code. */
static inline bool wire_symmetric(wire_type t) { return t == WIRE_INT8S || t == WIRE_INT4S; }
static inline int wire_limit(wire_type t) { return (1 << wire_infos[t].bits) - 1; }
