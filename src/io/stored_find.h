/* stored_find.h - finds the matrices of a quantized folder of the hub: which tensors belong together, and how their
 * bytes are codes and scales (tensor/stored.h).
 *
 * What the tensors show (names, types, shapes) decides; the configuration (quantization_config of config.json, or
 * hf_quant_config.json) names the method and what tensors cannot show. Methods, formats and layouts that are not known
 * are errors that name them. */
#pragma once
#include "base/buf.h"
#include "io/ckpt.h"

/* Joins them in the checkpoint (ckpt_join), and sets aside what is about activations. config: config.json; NULL: there
 * is none. A file that describes itself has none of these. `said` gets what was read of the configuration and which
 * scales are wide, as one line, nothing where there is neither; told: such a line instead, or NULL. ERR_SPEC. */
int stored_find(ckpt *c, const json *config, const char *told, buf *said, err *e);
