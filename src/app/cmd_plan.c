/* cmd_plan.c - `inferflow plan`: which layers and bytes land on which device, and the predicted time; --dump prints
 * the program.
 *
 * Decoding reads every weight once a token, so read bandwidth bounds it; a prompt does two operations per weight and
 * token, so the rate of multiply-adds bounds it. Both are measured here, in about a tenth of a second. */
#include "app/app.h"
#include "core/arithmetic.h"
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

/* Rates measured now, in bytes and operations a second, and the tokens a second that they allow. */
typedef struct bounds {
    double read, flops, decode, prefill;
} bounds;

static int measure(const engine *g, bounds *b, err *e)
{
    const engine_info *info = engine_describe(g);
    cpu_probe *p;
    int rc = cpu_probe_open(&p, info->threads, NULL, 0, e);
    if (rc) return rc;
    b->read = cpu_probe_read(p);
    for (int i = 0; i < 3; i++) b->flops = cpu_probe_float(p); /* a few milliseconds each; the first wakes threads */
    cpu_probe_close(p);
    b->decode = b->read / (double)info->weight_bytes;
    b->prefill = b->flops / (2 * (double)info->weight_count);
    return OK;
}

static int print_text(const engine *g, bool dump, err *e)
{
    const engine_info *info = engine_describe(g);
    bounds b;
    buf text = {0};
    int rc = engine_plan_text(g, dump, &text, e);
    if (!rc) fwrite(text.p, 1, text.n, stdout);
    buf_free(&text);
    if (!rc && !dump) rc = measure(g, &b, e);
    if (!rc && !dump)
        printf("at %.1f GB/s and %.0f GFLOP/s, measured now (%d threads, %s): at least %.1f ms a token, at most %.0f "
               "prompt tokens/s\n",
               b.read / 1e9, b.flops / 1e9, info->threads, info->isa, 1e3 / b.decode, b.prefill);
    return rc;
}

static int print_json(const engine *g, err *e)
{
    bounds b;
    int rc = measure(g, &b, e);
    json *root = json_new_object();
    json_add_str(root, "model", engine_describe(g)->name);
    json_add_int(root, "arithmetic", ARITHMETIC);
    if (!rc) rc = engine_plan_json(g, root, e);
    json *predicted = json_add_object(root, "predicted");
    if (!rc) json_add_num(predicted, "decode_tokens_per_s", b.decode);
    if (!rc) json_add_num(predicted, "prefill_tokens_per_s", b.prefill);
    if (!rc) rc = app_print_json(root, e);
    json_free(root);
    return rc;
}

static int run_plan(const invocation *v, err *e)
{
    const plan_command_options *o = v->options;
    engine *g;
    if (o->own.dump && v->json) return err_set(e, ERR_USAGE, "plan: give one of --dump and --json");
    int rc = engine_open(&g, &o->model, e);
    if (rc) return rc;
    rc = v->json ? print_json(g, e) : print_text(g, o->own.dump, e);
    engine_close(g);
    return rc;
}

const command command_plan = {
    .name = "plan",
    .summary = "which layers and bytes land on which device, and the predicted time",
    .prints_json = true,
    .flags = flags,
    .options_size = sizeof(plan_command_options),
    .notes = "A line a device: the layers of its group, then what it has of them: attention heads, heads of\n"
             "keys and values (kv), columns inside a feed-forward network (ffn), rows of the vocabulary.\n"
             "Devices joined by & share the layers of a group. Bytes: weights that it reads, those of them that\n"
             "are not used in the mapped file (own), the cache of keys and values, working memory of a step.\n"
             "\n"
             "The predicted time comes from the read bandwidth and the multiply-adds of this moment, measured in\n"
             "about a tenth of a second; --dump measures nothing.\n"
             "\n"
             "  inferflow plan --model DIR --devices 'cpu:1&cpu:1;cpu:2'\n",
    .run = run_plan,
};
