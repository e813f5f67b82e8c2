/* export_folder.h - the Hugging Face folder that `inferflow export` writes.
 *
 * It is made and read back in a folder of its own inside the target, whose files take their places when all of it is right: until
 * then the target is as it was. What lies there already and would be taken for part of the model is replaced only where an export
 * wrote it (the metadata of its model.safetensors says so); else nothing is touched and the file is named. */
#ifndef APP_EXPORT_FOLDER_H
#define APP_EXPORT_FOLDER_H
#include "engine/engine.h"
#include "models/export/export.h"

/* ERR_USAGE: the folder holds another model. ERR_SPEC: what was written would not be the same model. */
int export_folder_write(const model *m, const engine_options *o, const exporter *x, const char *dir, err *e);

#endif
