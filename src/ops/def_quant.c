/* def_quant.c - reference of QUANT: blocks of activations as int8 (tensor/act_q8.h); see quant_rows.h. */
#include "ops/quant_rows.h"

GPU_CODE void def_quant(const run *r, const op *o, int worker, int workers)
{
    quant_plain from = quant_plain_of(r, o);
    quant_rows(r, o, worker, workers, &from, quant_plain_fetch, act_encode);
}
