/* import.h - model files of the original Inferflow (github.com/inferflow/inferflow, arXiv 2401.08294) as specs of ours.
 *
 * Its users describe a model twice: `model_spec.json` says what the network is (names of tensors, norms, positions,
 * where residuals join), and a section `[model.ID]` of `inferflow_service.ini` says how to run it. Both become one INI
 * text. The file gives the structure, the checkpoint's configuration the numbers, as there. Flags that only steer their
 * kernels are left out; settings that change results and cannot be expressed are errors with the reason. Where their
 * engine departs from the model (one eps for all, heads of dim / heads only, tanh for every GELU), the configuration
 * decides. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"
#include "io/ckpt.h"

/* One model of an inferflow_service.ini: `id` of [model.ID], or NULL for the only one in [transformer_engine] models
 * (ERR_USAGE lists them when there are several). Reads the model_spec.json of that section. `path` names the text in
 * messages, `dir` is its folder; `model`: the weights, or NULL for those of the section. */
int import_service_text(span text, const char *path, const char *dir, const char *id, const char *model,
                        const ckpt *weights, buf *out, err *e);

/* A file, either of the two, told apart by content. */
int import_file(const char *path, const char *id, const char *model, const ckpt *weights, buf *out, err *e);
