/* def_embed.c - reference of EMBED: rows of a table. Ids outside the table give zeros, so that no input can read
 * beyond it. */
#include "ops/expert_rows.h"

#include "tensor/quant.h"
#include "tensor/panel.h"

#include <string.h>

GPU_CODE void held_row(const held_weight *w, int64_t n, float *to)
{
    if (w->packed)
        panel_row(w->type, w->data + (uint64_t)(n / PANEL_ROWS) * w->stride, (int)(n % PANEL_ROWS), w->cols, to);
    else quant_decode_row(w->type, w->data + (uint64_t)n * w->stride, to, (uint64_t)w->cols);
}

GPU_CODE void def_embed(const run *r, const op *o, int worker, int workers)
{
    const tensor *t = arg_info(r, o->in[0]);
    const held_weight fixed = {.data = (const uint8_t *)t->data,
                               .type = DTYPE_F32,
                               .stride = (uint64_t)t->dim[1] * sizeof(float),
                               .rows = t->dim[0],
                               .cols = t->dim[1]};
    const held_weight *table = t->kind == TENSOR_CONST ? &fixed : arg_weight(r, o->in[0]);
    const step_rows *rows = step_rows_of(r->st, arg_info(r, o->out)->axis);
    const bool expert = o->u.embed.by == EMBED_BY_EXPERT;
    const int32_t *const by[] = {rows->token, rows->pos, rows->type};
    const int32_t *ids = expert ? dispatch_at(r, o->in[1]) + DISPATCH_EXPERT : by[o->u.embed.by];
    int64_t dim = arg_dim(r, o->out), from, to;
    float *out = arg_at(r, o->out);
    run_share(arg_rows(r, o->out), 1, worker, workers, &from, &to);
    for (int64_t i = from; i < to; i++) {
        int64_t id = ids[expert ? i * DISPATCH_COLS : i];
        if (o->u.embed.by == EMBED_BY_TOKEN && id < 0) {
            memcpy(out + i * dim, r->st->vec + ~id * dim, (size_t)dim * sizeof *out);
            continue;
        }
        id += o->u.embed.offset;
        if (id >= 0 && id < table->rows) held_row(table, id, out + i * dim);
        else memset(out + i * dim, 0, (size_t)dim * sizeof *out);
    }
}
