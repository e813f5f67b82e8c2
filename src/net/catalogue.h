/* catalogue.h - the tensors of a leader's checkpoint, as a node is told: names, types, shapes, digests of contents.
 *
 * With these a node compares its own copy. One that has none builds the model from them, and fetches what its part of
 * the plan reads (net/fetch.h); so the few tensors that building itself reads, factors and lists of numbers, come with
 * the catalogue.
 *
 * Of each MiB of a tensor it has the root of a tree, so that any part of a tensor can be shown to be the leader's
 * (net/piece_proof.h). Processes of protocol 2 have a form in which a tensor has one digest. */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "core/program.h"
#include "io/contents.h"

/* What can be fetched at once, and the order of places: tensor after tensor, from multiples of this. */
enum { CATALOGUE_ALIGN = 64 };

typedef struct listed {
    ckpt_entry t;                 /* without data; name: the catalogue's */
    const uint8_t *root;          /* [contents_trees][SHA256_BYTES]; memory of the reader's input, as `given` */
    uint8_t digest[SHA256_BYTES]; /* protocol 2: of all of it */
    uint64_t at; /* its first byte, where all tensors lie one after another in the order of the catalogue */
    span given;  /* its contents where they came with the catalogue, else empty */
} listed;

typedef struct catalogue {
    arena mem;
    const char *format; /* ckpt_format: which keys and names these are */
    bool has_trees;
    uint8_t identity[SHA256_BYTES]; /* of format, names, types, shapes and roots: what has one has the same bytes in the
                                       same places, whoever tells of it; zeros without trees */
    listed *tensor;                 /* [n] in the order of names; without trees in that of the leader's checkpoint */
    uint32_t n;
    uint64_t bytes; /* of all, one after another */
    map names;      /* to numbers of tensors */
} catalogue;

/* p: the program that was built from the checkpoint. order: [ckpt_count] numbers in the checkpoint of the tensors in
 * the order of the catalogue. False: memory is short. */
bool catalogue_write(buf *out, uint32_t *order, const ckpt *c, const contents_roots *held, const program *p);
/* `text` must outlive it. ERR_FORMAT when malformed, or a size is impossible. */
int catalogue_read(catalogue *out, span text, err *e);
/* The same for processes of protocol 2. */
bool catalogue_write_flat(buf *out, const ckpt *c, const contents *held, const program *p);
int catalogue_read_flat(catalogue *out, span text, err *e);
void catalogue_free(catalogue *c);

/* Whether the tensors that p reads in a node's own copy hold what the leader's hold; ERR_NOT_FOUND names the first that
 * does not. cache, since: as contents_hash_some; *hashed_at: contents_roots.hashed_at. */
int catalogue_compare(const catalogue *c, const ckpt *own, const program *p, const char *cache, int64_t since,
                      int threads, int64_t *hashed_at, err *e);
