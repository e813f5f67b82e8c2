/* cmd_plan.c - `inferflow plan`: which layers and bytes land on which device, and the time that bounds predict; --dump prints the
 * program itself.
 *
 * One token of one sequence reads every weight once, so read bandwidth bounds it from below; a prompt does two operations per weight
 * and token, so the rate of multiply-adds bounds it. Both bounds are measured here, in about a tenth of a second. */
#include "app/app.h"
#include "cpu/cpu_probe.h"
#include "engine/engine.h"

#include <stdio.h>

typedef struct plan_flags {
    bool dump;
} plan_flags;

typedef struct plan_command_options {
    plan_flags own;
    engine_options model;
} plan_command_options;

static const param rows[] = {
    {"dump", PARAM_BOOL, offsetof(plan_flags, dump), NULL, 0, 0, NULL,
     "print every op with its shapes, weights and bytes", NULL},
};
static const size_t n_rows = sizeof rows / sizeof *rows;

static const flag_group flags[] = {
    {"Plan", rows, &n_rows, offsetof(plan_command_options, own)}, MODEL_FLAGS(plan_command_options, model), {0}};

static int predict(const engine *g, err *e)
{
    const engine_info *info = engine_describe(g);
    cpu_probe *p;
    int rc = cpu_probe_open(&p, info->threads, NULL, 0, e);
    if (rc) return rc;
    double read = cpu_probe_read(p), compute = 0;
    for (int i = 0; i < 3; i++) compute = cpu_probe_float(p); /* a few milliseconds each; the first one wakes threads */
    cpu_probe_close(p);
    double bytes = (double)info->weight_bytes, weights = (double)info->weight_count;
    printf("at %.1f GB/s and %.0f GFLOP/s, measured now (%d threads, %s): at least %.1f ms a token, at most %.0f "
           "prompt tokens/s\n",
           read / 1e9, compute / 1e9, info->threads, info->isa, 1e3 * bytes / read, compute / (2 * weights));
    return 0;
}

static int run_plan(const invocation *v, err *e)
{
    const plan_command_options *o = v->options;
    engine *g;
    buf text = {0};
    int rc = engine_open(&g, &o->model, e);
    if (rc) return rc;
    rc = engine_plan_text(g, o->own.dump, &text, e);
    if (!rc) fwrite(text.p, 1, text.n, stdout);
    if (!rc && !o->own.dump) rc = predict(g, e);
    buf_free(&text);
    engine_close(g);
    return rc;
}

const command command_plan = {
    .name = "plan",
    .summary = "which layers and bytes land on which device, and the predicted time",
    .flags = flags,
    .options_size = sizeof(plan_command_options),
    .notes =
        "The predicted time comes from the read bandwidth and the multiply-adds of this moment, measured in about a "
        "tenth\n"
        "of a second; --dump measures nothing. Example: inferflow plan --model DIR --devices 'cpu:2;cpu:2' --dump\n",
    .run = run_plan,
};
