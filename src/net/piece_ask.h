/* piece_ask.h - what a node asks its leader for: bytes of tensors, at most 1 MiB at once. */
#pragma once
#include "core/weight_reads.h"
#include "net/catalogue.h"

enum { PIECE_BYTES = 1 << 20, PIECE_RUNS = 1000 };

typedef struct piece_ask {
    uint32_t n, bytes; /* runs; their bytes together */
    byte_run run[PIECE_RUNS];
} piece_ask;

bool piece_ask_write(buf *out, const piece_ask *a);
/* Reads the head of c's rest. bytes_of(ctx, i): bytes of tensor i. ERR_FORMAT when malformed or beyond a tensor. */
int piece_ask_read(piece_ask *a, cursor *c, uint32_t n_tensor, uint64_t (*bytes_of)(const void *ctx, uint32_t i),
                   const void *ctx, err *e);
