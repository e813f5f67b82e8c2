/* coll_reduce.h - what reductions share: a tensor of rows divided among ranks, and its parts coded.
 *
 * The groups of all rows are numbered through, and rank r owns chunk r of as many chunks as there are ranks. As codes
 * never depend on what else is coded, neither ownership nor the number of rows enters the bits. */
#pragma once
#include "comm/coll.h"

/* Groups from … to - 1. */
typedef struct coll_chunk {
    int64_t from, to;
} coll_chunk;

coll_chunk coll_whole(const coll_job *j);
coll_chunk coll_chunk_of(const coll_job *j, int rank, int ranks);
/* Bytes of a chunk. */
uint64_t coll_chunk_bytes(const coll_job *j, wire_type t, coll_chunk k);

/* Bytes that no chunk exceeds, of so many rows or fewer. */
uint64_t coll_chunk_most(const coll_job *j, wire_type t, int ranks);

/* Between a chunk of j->x and its bytes. */
void coll_encode(const coll_job *j, wire_type t, coll_chunk k, uint8_t *to);
void coll_decode(const coll_job *j, wire_type t, coll_chunk k, const uint8_t *from);
void coll_add(const coll_job *j, wire_type t, coll_chunk k, const uint8_t *from); /* x += decoded */
