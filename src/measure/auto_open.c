/* auto_open.c - see auto_open.h. */
#include "measure/auto_open.h"

#include "engine/draft_model.h"
#include "engine/engine_state.h"
#include "measure/auto_devices.h"

#include <string.h>

/* The list of devices, where --peers leaves it open. */
static int choose_devices(engine_options *o, buf *chosen, model *m, err *e)
{
    if (!o->peers) return OK;
    if (o->devices && strcmp(o->devices, "auto"))
        return err_set(e, ERR_USAGE, "--peers: nodes for --devices auto; --devices names others: give one of both");
    if (o->gpu_layers || o->no_gpu || o->cpu_moe || o->n_cpu_moe)
        return err_set(e, ERR_USAGE, "--peers: the layout is found; %s gives one: give one of both",
                       o->gpu_layers  ? "--gpu-layers"
                       : o->no_gpu    ? "--no-gpu"
                       : o->n_cpu_moe ? "--n-cpu-moe"
                                      : "--cpu-moe");
    int rc = auto_devices(chosen, m, o, e);
    if (!rc && chosen->bad) rc = err_memory(e, "a list of devices");
    o->devices = rc ? NULL : buf_cstr(chosen);
    return rc;
}

int auto_open(engine **out, const engine_options *o, err *e)
{
    model *m;
    engine_options own = *o;
    buf chosen = {0};
    *out = NULL;
    int rc = engine_open_model(&m, o, e);
    if (rc) return rc;
    own.before_pages = draft_model_open;
    rc = choose_devices(&own, &chosen, m, e);
    if (rc) model_close(m);
    else rc = engine_open_with(out, m, &own, e);
    buf_free(&chosen);
    if (!rc && (rc = draft_model_check(*out, e))) {
        engine_close(*out);
        *out = NULL;
    }
    return rc;
}
