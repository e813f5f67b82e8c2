/* export_folder.h - the Hugging Face folder that `inferflow export` writes.
 *
 * It is written to a folder inside the target and read back; then its files take their places. Until then the target
 * does not change. Model files that are in the target already are replaced only if an export wrote them (the
 * metadata of model.safetensors says so); otherwise nothing is touched and the file is named. */
#pragma once
#include "engine/engine.h"
#include "models/export/export.h"

/* ERR_USAGE: the folder holds another model. ERR_SPEC: what was written would not be the same model. */
int export_folder_write(const model *m, const engine_options *o, const exporter *x, const char *dir, err *e);
