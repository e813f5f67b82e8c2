/* export_state.c - see export_state.h. */
#include "models/export/export_state.h"

const char *export_source(const exporter *x) { return x->kind == EXPORT_GGUF ? "gguf" : "hf"; }

int export_oom(const exporter *x) { return err_set(x->e, ERR_MEMORY, "out of memory while exporting"); }

const char *export_hint(const model *m, export_kind kind)
{
    if (ckpt_own_spec(m->weights)) return "take the model that the quantized file was made of";
    return kind == EXPORT_HF ? "write a .gguf file instead" : "write a Hugging Face folder instead";
}
