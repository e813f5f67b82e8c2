/* cmd_plan.c - `inferflow plan`: which layers and bytes land on which device; --dump prints the program itself. */
#include "app/app.h"
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

static int run_plan(const invocation *v, err *e)
{
    const plan_command_options *o = v->options;
    engine *g;
    buf text = {0};
    int rc = engine_open(&g, &o->model, e);
    if (rc) return rc;
    rc = engine_plan_text(g, o->own.dump, &text, e);
    if (!rc) fwrite(text.p, 1, text.n, stdout);
    buf_free(&text);
    engine_close(g);
    return rc;
}

const command command_plan = {
    .name = "plan",
    .summary = "which layers and bytes land on which device",
    .flags = flags,
    .options_size = sizeof(plan_command_options),
    .notes = "Example: inferflow plan --model DIR --devices 'cpu:2;cpu:2' --dump\n",
    .run = run_plan,
};
