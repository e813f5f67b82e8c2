/* gguf_file.h - a described model (models/export.h) as a GGUF file with its vocabulary. */
#pragma once
#include "engine/engine.h"
#include "models/export/export.h"

/* The vocabulary is that of the tokenizer that the flags name, if GGUF can express it. threads: 0 = all. */
int gguf_file_write(const model *m, const engine_options *o, exporter *x, const char *path, int threads, err *e);
