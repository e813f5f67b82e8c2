/* zip.h - the directory of a ZIP file: where its stored entries lie, so that they can be used in place.
 *
 * Reads the central directory with the zip64 fields and each local header (its extra field differs: torch pads there).
 * Refuses compressed or encrypted entries, several disks, overlaps, names that leave the folder. Extracts nothing. */
#pragma once
#include "base/err.h"
#include "base/map.h"
#include "base/span.h"

typedef struct zip_entry {
    span name;                      /* in the file */
    uint64_t header, offset, bytes; /* local header, first byte of the contents, their number */
} zip_entry;

typedef struct zip {
    zip_entry *entry;
    uint32_t n;
    map names;
} zip;

/* Lists a file. Release with zip_free, also after an error. */
int zip_list(zip *z, span file, err *e);
const zip_entry *zip_find(const zip *z, span name); /* NULL when absent */
void zip_free(zip *z);
