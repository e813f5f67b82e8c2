/* native_json.h - choices in the form of llama.cpp's own endpoint. */
#pragma once
#include "serve/completion.h"

/* The next event of a choice: text up to byte `upto`; the last has everything. */
void native_chunk_write(buf *out, job *j, choice *c, size_t upto);
/* The whole reply: an object, or an array of them where there are several choices. */
void native_write(buf *out, job *j);
void native_reading_write(buf *out, const job *j, const choice *c, int64_t read); /* completion_json.h */
