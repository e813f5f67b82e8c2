/* page_store.h - pages of the KV cache on disk: a folder of them (serve --cache-dir), or one file (run --session).
 *
 * In a folder the pages of each name are a file (page_file.h), called by a digest of the name and of what it was made
 * for, ".page": so they are found without an index, and servers, of other models too, may share a folder. A file comes
 * into being whole, under another name first, and is never changed; a thread of the store writes it. Where files take
 * more than the bytes that are allowed, those go that were not used for longest; later pages of a text count as older
 * than earlier ones, for they are worth nothing without these.
 *
 * What is not such a file, or is damaged, is named in the log once, and neither read as pages nor removed nor
 * replaced. */
#pragma once
#include "cache/page_file.h"

#include <stdint.h>

typedef struct page_store page_store;

int page_store_open(page_store **out, const page_shape *of, err *e);
void page_store_close(page_store *s); /* NULL ok; what is being written is written first */

/* Keeps pages in this folder, which is made if need be, in `most` bytes. on_free(ctx) is called, on another thread,
 * when page_store_room will give room again. */
int page_store_add_folder(page_store *s, const char *dir, int64_t most, void (*on_free)(void *ctx), void *ctx, err *e);
/* Finds the pages of this file too; all are checked. No file is no error. As page_file_read_head. */
int page_store_add_file(page_store *s, const char *path, err *e);

/* ---- on one thread, without allocation */
/* Looks a page up by its name (prefix_node.digest). */
bool page_store_find(page_store *s, const uint8_t name[SHA256_BYTES], page_record *out);
/* The pages of a record that was found, number `depth` of its text; until the next call. NULL: they are damaged, or
 * gone. */
const uint8_t *page_store_read(page_store *s, const page_record *r, int64_t depth);
/* Room for the pages of one name, to be filled and given to page_store_write. NULL: another is being written. */
uint8_t *page_store_room(page_store *s);
void page_store_write(page_store *s, const uint8_t name[SHA256_BYTES], uint32_t groups, int64_t depth);
/* Waits until there is room again; false: not within so many seconds. */
bool page_store_wait(page_store *s, double seconds);
