/* derive_parts.h - the tensors of a checkpoint as parts of a transformer, recognised by name and shape. */
#pragma once
#include "base/arena.h"
#include "io/ckpt.h"

#include <stdbool.h>

/* X(id, our [tensors] key, in a layer) */
#define PART_LIST(X)                                                                                                   \
    X(TOKEN, "token", false)                                                                                           \
    X(POSITION, "position", false)                                                                                     \
    X(EMBED_NORM, "norm.e", false)                                                                                     \
    X(LAST_NORM, "norm.f", false)                                                                                      \
    X(HEAD, "head", false)                                                                                             \
    X(Q, "attn.q", true)                                                                                               \
    X(K, "attn.k", true)                                                                                               \
    X(V, "attn.v", true)                                                                                               \
    X(QKV, "attn.q, attn.k, attn.v", true)                                                                             \
    X(O, "attn.o", true)                                                                                               \
    X(Q_NORM, "attn.q_norm", true)                                                                                     \
    X(K_NORM, "attn.k_norm", true)                                                                                     \
    X(GATE, "ffn.gate", true)                                                                                          \
    X(UP, "ffn.up", true)                                                                                              \
    X(GATE_UP, "ffn.gate, ffn.up", true)                                                                               \
    X(DOWN, "ffn.down", true)                                                                                          \
    X(ROUTER, "ffn.router", true)                                                                                      \
    X(EXPERT_GATE, "ffn.gate", true)                                                                                   \
    X(EXPERT_UP, "ffn.up", true)                                                                                       \
    X(EXPERT_DOWN, "ffn.down", true)                                                                                   \
    X(SHARED_GATE, "ffn.shared.gate", true)                                                                            \
    X(SHARED_UP, "ffn.shared.up", true)                                                                                \
    X(SHARED_DOWN, "ffn.shared.down", true)                                                                            \
    X(NORM_A, "norm.a", true)                                                                                          \
    X(NORM_B, "norm.b", true)                                                                                          \
    X(NORM_C, "norm.c", true)                                                                                          \
    X(NORM_D, "norm.d", true)                                                                                          \
    X(BUFFER, "ignore", false)

typedef enum part_role {
    PART_NONE,
#define X(id, key, layer) PART_##id,
    PART_LIST(X)
#undef X
        PART_COUNT
} part_role;

/* Tensors whose names differ in numbers only, with their biases. */
typedef struct part {
    const char *name; /* {i} for the number of the layer, {j} for further ones; without .weight or .bias */
    part_role role;
    const ckpt_entry *first; /* the weight of the lowest layer; NULL: there are only biases */
    uint32_t count, biases;
    int inner; /* one more than the largest {j}; 0: there is none */
} part;

/* Where the norms of a layer stand in its two branches. */
typedef enum { PLACE_NONE, PLACE_BEFORE, PLACE_ONE, PLACE_ON_BRANCH, PLACE_AROUND, PLACE_UNKNOWN } norm_place;

typedef struct parts {
    arena mem;
    part *at;
    size_t n, cap;
    const char *layers; /* prefix of the layer's number: "model.layers." */
    int n_layer;
    int rivals;                 /* other numbered prefixes: encoders beside decoders */
    const part *of[PART_COUNT]; /* NULL: there is none */
    norm_place place;
} parts;

int parts_find(parts *p, const ckpt *c, err *e);
void parts_free(parts *p);
const char *part_key(part_role role);
/* Whether norms of layers have as many weights below zero as only those have that store w - 1 (Gemma). */
bool derive_norms_are_offset(const ckpt *c);
