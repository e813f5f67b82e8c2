/* catalogue.h - the tensors of a leader's checkpoint, as a node is told: names, types, shapes, digests of contents.
 *
 * With these a node compares its own copy. One that has none builds the model from them, and fetches what its part of
 * the plan reads (net/fetch.h); so the few tensors that building itself reads, factors and lists of numbers, come with
 * the catalogue. */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "core/program.h"
#include "io/contents.h"

/* What can be fetched at once, and the order of places: tensor after tensor, from multiples of this. */
enum { CATALOGUE_ALIGN = 64 };

typedef struct listed {
    ckpt_entry t; /* without data; name: the catalogue's */
    uint8_t digest[SHA256_BYTES];
    uint32_t rank; /* its number in the order of names */
    uint64_t at;   /* its first byte, where all tensors lie one after another in that order */
    span given;    /* its contents where they came with the catalogue, else empty; memory of the reader's input */
} listed;

typedef struct catalogue {
    arena mem;
    const char *format;        /* ckpt_format: which keys and names these are */
    uint8_t all[SHA256_BYTES]; /* contents.all */
    listed *tensor;            /* [n] in the order of the leader's checkpoint */
    uint32_t *ranked;          /* [n] their numbers in the order of names, which is the same for every copy */
    uint32_t n;
    uint64_t bytes; /* of all, one after another */
    map names;      /* to numbers of tensors */
} catalogue;

/* p: the program that was built from the checkpoint. False: memory is short. */
bool catalogue_write(buf *out, const ckpt *c, const contents *held, const program *p);
/* `text` must outlive it. ERR_FORMAT when malformed, a size is impossible, or `all` is not the digest of the list: so
 * what has one digest has one list, and the same places. */
int catalogue_read(catalogue *out, span text, err *e);
void catalogue_free(catalogue *c);

/* Whether the tensors that p reads in a node's own copy hold what the leader's hold; ERR_NOT_FOUND names the first that
 * does not. cache, since: as contents_hash_some. */
int catalogue_compare(const catalogue *c, const ckpt *own, const program *p, const char *cache, int64_t since,
                      int threads, err *e);
