/* checked_file.h - an output that is read back before it takes its place: what was there stays until the new one is known to be right. */
#ifndef APP_CHECKED_FILE_H
#define APP_CHECKED_FILE_H
#include "base/err.h"

/* The name to write `path` under, in the same folder and with the same ending; its own where that cannot be, as of a device. Its end is
 * checked_file_end. NULL: out of memory. */
char *checked_file_name(const char *path);

/* Ends it, with `rc` the result of writing and checking: the file takes its place, or is removed. Frees `name`; returns rc, or what went wrong now. */
int checked_file_end(char *name, const char *path, int rc, err *e);

#endif
