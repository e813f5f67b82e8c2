/* page_file.h - files of pages of the KV cache: those of one name (page_store.h), or of a whole text (run --session).
 *
 *     magic "inferflow pages 1", or 2    made for: 32 bytes      bytes of a page of each group: 4 numbers of 64 bits
 *     of a model with slots, "pages 2":                          and of a slot: a fifth
 *     n: 32 bits                         n records: name (32 bytes), groups (32 bits), sum (32 bytes)
 *     SHA-256 of all that                the pages of each record, its groups in order
 *
 * Numbers are little-endian. A name is a digest of all ids up to the page and of what else it depends on
 * (prefix_tree.h): no id and no key is in the file. A snapshot is a record too, of a name made of its node's
 * (disk_cache.c) and of group 4. A sum is the SHA-256 of the record's pages. A reader takes a page
 * only where model, arithmetic, layout and name are its own and the sum is right. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/sha256.h"
#include "core/program.h"

#include <stdbool.h>

/* The head of a file of one record, at most. */
enum { PAGE_FILE_ONE = 17 + SHA256_BYTES + 8 * (GROUP_MAX + 1) + 4 + 2 * SHA256_BYTES + 4 + SHA256_BYTES };

enum { PAGE_ALL = (2 << GROUP_MAX) - 1, PAGE_SLOT = 1 << GROUP_MAX }; /* groups of a record: all; a snapshot */

/* What pages belong to. */
typedef struct page_shape {
    uint8_t made_for[SHA256_BYTES]; /* digest of model, arithmetic and layout */
    uint64_t bytes[GROUP_MAX + 1];  /* of a page of each group; of a slot, 0: the model has none */
} page_shape;

typedef struct page_record {
    uint8_t name[SHA256_BYTES];
    uint32_t groups; /* bit g: a page of group g is there, or a slot */
    uint8_t sum[SHA256_BYTES];
    uint64_t offset; /* of its pages in the file */
} page_record;

/* Bytes of the pages of these groups. */
uint64_t page_record_bytes(const page_shape *s, uint32_t groups);
/* Adds the head of a file with these records; their offsets are not looked at. */
void page_file_add_head(buf *out, const page_shape *s, const page_record *r, uint32_t n);
/* Reads a head from the file's first bytes (all of it, or as many as there are) and checks it and the file's size.
 * Fills at most `most` records; *n: those of the file. ERR_FORMAT: no such file, or damaged; ERR_NOT_FOUND: of another
 * model, arithmetic or layout. Messages do not name the file. Allocates nothing. */
int page_file_read_head(span head, uint64_t file_bytes, const page_shape *s, page_record *to, uint32_t most,
                        uint32_t *n, err *e);
/* Whether these are the record's pages. */
bool page_record_holds(const page_record *r, const uint8_t *pages, uint64_t bytes);
