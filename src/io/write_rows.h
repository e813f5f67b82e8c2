/* write_rows.h - the bytes of one tensor into a file: for the writers of formats. */
#ifndef IO_WRITE_ROWS_H
#define IO_WRITE_ROWS_H
#include "base/file.h"
#include "base/pool.h"
#include "io/write.h"

/* threads: NULL ok */
int write_rows(file_out *f, const write_tensor *t, pool *threads, err *e);

#endif
