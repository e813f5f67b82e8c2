/* receipt_file.h - the receipt of a text, in a file (engine/receipt.h). */
#pragma once
#include "engine/receipt.h"

/* Replaces the file. Arguments as receipt_write. */
int receipt_file_write(const char *path, const engine *g, const fingerprint *f, const query *q, const token_list *made,
                       receipt_end how, err *e);
