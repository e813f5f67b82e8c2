/* store_journal.h - the journal beside a file of tensors that a node keeps (net/store.h): which bytes of the file were
 * fetched, and their digests, record after record. One that was cut short by the end of a process is taken off. */
#pragma once
#include "base/file.h"
#include "io/sums_disk.h"
#include "net/piece_ask.h"

/* Names of files begin with digits of the identity; those of earlier forms had fewer. */
enum { STORE_DIGITS = 48, STORE_NAME = 64 };

typedef struct file_run {
    uint64_t at;
    uint32_t n;
} file_run;

typedef struct store_record {
    uint8_t digest[SHA256_BYTES]; /* of the bytes of the runs, one after another */
    uint32_t n;
    file_run run[PIECE_RUNS];
} store_record;

void store_name(const uint8_t identity[SHA256_BYTES], const char *ending, char to[STORE_NAME]);
bool store_record_write(buf *out, const store_record *r);
bool store_record_read(store_record *r, cursor *c); /* false: the end, or it is malformed */
/* Whether somebody has put another journal in its place: store_recheck, of this process or of another. */
bool store_journal_is_left(int journal);
/* The bytes of a journal; one that is too large is emptied. Under its lock. */
int store_journal_load(int journal, buf *to, err *e);

/* Reads what the files of a folder hold from the disk. Bytes that are not as their journal says leave it, so that they
 * are fetched anew, and `changed` is told which file: what uses it has to end. Returns the bytes that were read;
 * go_on as in sums_pace. */
typedef void store_changed(void *ctx, const file_id *tensors, const err *why);
uint64_t store_recheck(const char *dir, const sums_pace *pace, store_changed *changed, void *ctx);
