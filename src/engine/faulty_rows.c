/* faulty_rows.c - what a query is told when its rows are no numbers: where that was noticed first. */
#include "engine/engine_state.h"
#include "plan/plan_show.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void name_layer(const engine *g, const op *o, char to[60])
{
    const uint8_t axis = g->prog->tensors[o->out].axis;
    const bool after = axis == AXIS_OUT || axis == AXIS_SEQ;
    if (o->layer < 0) snprintf(to, 60, "%s the layers", after ? "after" : "before");
    else if (o->layer < g->prog->n_enc) snprintf(to, 60, "in layer %d of the encoder", o->layer);
    else snprintf(to, 60, "in layer %d", o->layer - g->prog->n_enc);
}

/* Where the model is on several devices: which has computed it. */
static void name_rank(const plan *l, int rank, char to[PLAN_DEVICE_NAME + 40])
{
    char name[PLAN_DEVICE_NAME];
    const int n = plan_segments(l);
    *to = 0;
    if (n > 1) snprintf(to, PLAN_DEVICE_NAME + 40, " (rank %d of %d, %s)", rank, n, plan_device_name(l, rank, name));
}

/* Of a step that began with position `before` of the session. */
static void name_token(const engine *g, const batch *b, int32_t k, int64_t before, const row_fault *x, char to[80])
{
    const session *s = b->who[k];
    const bool enc = g->prog->tensors[g->prog->ops[x->op].out].axis == AXIS_ENC;
    const int64_t at = enc ? x->row - b->st.enc.seq_row[k] : before + x->row - b->st.tok.seq_row[k];
    const int32_t id = enc || at < 0 || at >= s->n_ids ? -1 : s->ids[at];
    if (id < 0) snprintf(to, 80, "token %lld", (long long)at);
    else snprintf(to, 80, "token %lld (id %d)", (long long)at, id);
}

int row_fault_error(const engine *g, const batch *b, int32_t k, int64_t before, err *e)
{
    const row_fault *faults = plan_faults(g->plan), *x = faults ? &faults[k] : NULL;
    const char *reduce = plan_reduces(g->plan), *wire = plan_wire(g->plan);
    char layer[60], token[80], codec[80], rank[PLAN_DEVICE_NAME + 40];
    if (!x || x->how == ROW_GOOD) return OK;
    if (reduce && !strcmp(reduce, "f32")) reduce = NULL;
    name_layer(g, &g->prog->ops[x->op], layer);
    name_token(g, b, k, before, x, token);
    snprintf(codec, sizeof codec, "%s%s%s%s%s", reduce ? "--reduce " : "", reduce ? reduce : "",
             reduce && wire ? " or " : "", wire ? "--wire " : "", wire ? wire : "");
    name_rank(g->plan, x->rank, rank);
    if (x->how == ROW_NOT_FINITE)
        return err_set(e, ERR_LIMIT, "the model computed no finite numbers for %s %s%s, before any %s", token, layer,
                       rank, codec);
    return err_set(e, ERR_LIMIT, "%s cannot hold a row of %s %s: use f32", codec, token, layer);
}

int row_not_finite(int64_t at, int64_t width, const float *row, err *e)
{
    for (int64_t i = 0; i < width; i++)
        if (isnan(row[i]) || row[i] == INFINITY)
            return err_set(e, ERR_LIMIT, "the model computed no finite numbers for token %lld", (long long)at);
    return OK;
}
