/* checked_file.h - an output that is read back before it takes its place: until then the old file stays. */
#pragma once
#include "base/err.h"

/* The name to write `path` under, ".checking.PID.NAME" in the same folder; `path` itself where that cannot be, as of
 * a device. What killed runs left under such a name is removed. Its end is checked_file_end. NULL: out of memory. */
char *checked_file_name(const char *path);

/* Ends it, with `rc` the result of writing and checking: the file takes its place, or is removed. Frees `name`; returns
 * rc, or the error of the move. */
int checked_file_end(char *name, const char *path, int rc, err *e);

/* Calls remove_one for what killed processes left in a folder: names of `prefix`, a process's id, '.' and `rest` (NULL:
 * anything). */
void remove_left(const char *dir, const char *prefix, const char *rest, void (*remove_one)(const char *path));
