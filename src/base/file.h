/* file.h - files: read whole, map, write atomically.
 *
 * A mapping survives a file that shrinks underneath it, or that cannot be read: the SIGBUS handler installed by the
 * first file_map puts zero pages there and marks the mapping `torn`; owners ask file_torn after they used the bytes
 * and report an error. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct file_mapping file_mapping;

/* Maps `path` read-only. ERR_NOT_FOUND / ERR_IO name the path. An empty file gives an empty span. */
int file_map(file_mapping **out, const char *path, err *e);
span file_bytes(const file_mapping *m);
/* Bytes of it may have been read as zeros, or would be now. */
bool file_torn(const file_mapping *m);
void file_unmap(file_mapping *m);

/* Compares the file with what it was when it was mapped or restored. FILE_TOUCHED: its times were set, which may hide
 * that it was written to; one call says so, the next ones FILE_SAME. New names, rights and owners are no change. One
 * thread at a time. */
typedef enum { FILE_SAME, FILE_TOUCHED, FILE_WRITTEN, FILE_TORN } file_state;
file_state file_look(file_mapping *m);
/* Maps what `path` is now at the same addresses, without a mark: whether it holds the same bytes the caller has to see.
 * ERR_UNAVAILABLE: it is too short. Nobody else may read the mapping meanwhile. */
int file_restore(file_mapping *m, const char *path, err *e);

/* Which file it is and when its bytes or its place were last changed, in nanoseconds: equal while nobody touches it. */
typedef struct file_id {
    uint64_t device, inode, bytes;
    int64_t modified, changed;
} file_id;
file_id file_mapped_id(const file_mapping *m);      /* when it was mapped */
bool file_identify(const char *path, file_id *out); /* false: there is none */
bool file_is(const char *path, const file_id *id);  /* still that file, as it was */
/* Whether `path` is still that file, and that since so long that a later write must show in its times. */
bool file_settled(const char *path, const file_id *id);

/* Says that [p, p + n) will probably not be read again: its whole pages leave this process's memory until they are.
 * Does nothing to memory that is not of a mapping. */
void file_release(const void *p, size_t n);

/* Reads a whole file of at most `max` bytes (a larger one: ERR_LIMIT). "-" reads standard input. */
int file_read(buf *out, const char *path, size_t max, err *e);
/* As file_read, for text: without a byte order mark (utf8_unmark). */
int file_read_text(buf *out, const char *path, size_t max, err *e);
/* As file_read, for files that belong to a model: FIFOs, devices and folders are refused (ERR_IO), never waited for. */
int file_read_regular(buf *out, const char *path, size_t max, err *e);

/* Warns, once a file, where others than its owner may read a key. */
void file_warn_readable(const char *path);
bool file_is_dir(const char *path);
bool file_exists(const char *path);
/* dir + "/" + name (or name itself when it is absolute); mem_free the result. NULL: out of memory. */
char *file_join(const char *dir, const char *name);
/* The folder part of a path ("." when there is none); mem_free the result. */
char *file_dir(const char *path);

/* Output. It is written to a file without a name (with a temporary one where the file system has no such files), so
 * that what is interrupted leaves nothing behind; file_commit syncs it and renames it over `path`, file_abandon
 * drops it. A link is kept and its target replaced; devices and pipes are written directly. */
typedef struct file_out file_out;
int file_create(file_out **out, const char *path, err *e);
/* As file_create, for files that show what texts were about: only the owner may read and write them. */
int file_create_private(file_out **out, const char *path, err *e);
int file_write(file_out *f, const void *p, size_t n, err *e);
/* Says how large the file will be. ERR_IO when the disk has no room for that. */
int file_reserve(file_out *f, uint64_t bytes, err *e);
int file_pad(file_out *f, size_t align, err *e); /* zero bytes up to a multiple of align */
uint64_t file_offset(const file_out *f);
int file_commit(file_out *f, err *e); /* frees f whatever the result */
void file_abandon(file_out *f);       /* NULL ok */
