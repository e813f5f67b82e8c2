/* side_files.h - the files beside a model that it needs: tokenizer, what says how to generate and to embed. */
#pragma once
#include "engine/engine.h"
#include "models/model.h"

/* Adds them to the metadata of a self-contained file (io/self_contained.h). Its tokenizer is the one of --tokenizer,
 * else that of the spec or the model. */
int side_files_add(json *metadata, const model *m, const engine_options *o, err *e);

/* Names of files of a tokenizer, and of how to generate, that may lie beside a model; NULL from the last one on. */
const char *side_file_name(size_t i);
