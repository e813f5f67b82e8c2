/* write_rows.h - the bytes of one tensor into a file: for the writers of formats. */
#ifndef IO_WRITE_ROWS_H
#define IO_WRITE_ROWS_H
#include "base/file.h"
#include "io/write.h"

int write_rows(file_out *f, const write_tensor *t, err *e);

#endif
