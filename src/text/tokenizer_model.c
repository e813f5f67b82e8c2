/* tokenizer_model.c - the tokenizer that a model carries. */
#include "text/tokenizer.h"

int tokenizer_of_model(tokenizer **out, const ckpt *model, err *e)
{
    return tokenizer_open(out, ckpt_dir(model), NULL, e);
}
