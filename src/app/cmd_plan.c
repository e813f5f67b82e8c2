/* cmd_plan.c - `inferflow plan`: which layers and bytes land on which device, the links between them, and the predicted
 * time (measure/forecast.h); --dump prints the program. */
#include "app/app.h"
#include "app/plan_links.h"
#include "base/mem.h"
#include "core/arithmetic.h"
#include "measure/auto_open.h"
#include "measure/forecast.h"
#include "plan/devices.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct plan_flags {
    bool dump;
    int64_t prompt;
} plan_flags;

typedef struct plan_command_options {
    plan_flags own;
    engine_options model;
} plan_command_options;

static const param rows[] = {
    PARAM_ROW(plan_flags, dump, PARAM_BOOL, .doc = "print every op with its shapes, weights and bytes"),
    PARAM_ROW(plan_flags, prompt, PARAM_INT, .otherwise = "512", .min = 1, .max = 1 << 20, .alias = "p",
              .doc = "tokens of the prompt whose time is predicted"),
};
static const size_t n_rows = sizeof rows / sizeof *rows;

static const flag_group flags[] = {
    {"Plan", rows, &n_rows, offsetof(plan_command_options, own)}, MODEL_FLAGS(plan_command_options, model), {0}};

/* Seconds of a token, where the model generates; else of the text. */
static double seconds_of(const forecast *f) { return f->token > 0 ? f->token : f->first; }

/* What computes or carries longest. */
static void name_bound(const forecast *f, const engine *g, buf *to)
{
    engine_device *d = mem_array(DEVICES_MAX, sizeof *d);
    if (f->communicates > seconds_of(f) / 2) buf_str(to, "communication");
    else if (d && engine_devices(g, d, DEVICES_MAX) > f->slowest) buf_str(to, d[f->slowest].name);
    mem_free(d);
}

static void print_links(const json *root)
{
    for (const json *l = json_first(json_get(root, "links")); l; l = json_next(l))
        printf("%s to %s: %.3f ms there and back, %.0f Mbit/s\n", json_str(json_get(l, "a"), ""),
               json_str(json_get(l, "b"), ""), json_num(json_get(l, "rtt_ms"), 0),
               json_num(json_get(l, "mbit_per_s"), 0));
}

static void print_forecast(const forecast *f, const char *limit)
{
    printf("prompt of %" PRId64 " tokens: %.3f s, %.0f tokens/s\n", f->prompt, f->first, (double)f->prompt / f->first);
    if (f->token > 0) printf("then a token: %.2f ms, %.1f tokens/s\n", 1e3 * f->token, 1 / f->token);
    printf("bound by %s; communication %.0f %% of the time\n", limit, 100 * f->communicates / seconds_of(f));
}

/* Of a token, or of the text where none is generated: what each of several devices computes. */
static void print_devices(const forecast *f, const engine *g)
{
    engine_device *d = mem_array(DEVICES_MAX, sizeof *d);
    const int n = d ? engine_devices(g, d, DEVICES_MAX) : 0;
    for (int i = 0; n > 1 && i < n && i < f->n; i++) printf("%s computes %.2f ms of it\n", d[i].name, 1e3 * f->busy[i]);
    mem_free(d);
}

static int print_text(engine *g, const plan_command_options *o, err *e)
{
    buf text = {0};
    forecast f;
    json *links = json_new_object();
    int rc = engine_plan_text(g, o->own.dump, &text, e);
    if (!rc) fwrite(text.p, 1, text.n, stdout);
    text.n = 0;
    if (!rc && !o->own.dump) rc = plan_links(g, o->model.key_file, links, e);
    if (!rc && !o->own.dump && !(rc = forecast_make(&f, g, o->own.prompt, e))) {
        name_bound(&f, g, &text);
        print_links(links);
        print_forecast(&f, buf_cstr(&text));
        print_devices(&f, g);
        forecast_free(&f);
    }
    json_free(links);
    buf_free(&text);
    return rc;
}

static void add_forecast(const forecast *f, const engine *g, json *to)
{
    buf limit = {0};
    name_bound(f, g, &limit);
    if (f->token > 0) json_add_num(to, "decode_tokens_per_s", 1 / f->token);
    json_add_num(to, "prefill_tokens_per_s", (double)f->prompt / f->first);
    json_add_num(to, "ttft_s", f->first);
    json_add_int(to, "prompt", f->prompt);
    json_add_num(to, "communication_share", f->communicates / seconds_of(f));
    json_add_str(to, "bound", buf_cstr(&limit));
    buf_free(&limit);
}

static int print_json(engine *g, const plan_command_options *o, err *e)
{
    forecast f;
    json *root = json_new_object();
    json_add_str(root, "model", engine_describe(g)->name);
    json_add_int(root, "arithmetic", ARITHMETIC);
    int rc = forecast_make(&f, g, o->own.prompt, e);
    if (!rc) rc = engine_plan_json(g, f.busy, root, e);
    if (!rc) rc = plan_links(g, o->model.key_file, root, e);
    if (!rc) add_forecast(&f, g, json_add_object(root, "predicted"));
    if (!rc) rc = app_print_json(root, e);
    forecast_free(&f);
    json_free(root);
    return rc;
}

static int run_plan(const invocation *v, err *e)
{
    const plan_command_options *o = v->options;
    engine *g;
    if (o->own.dump && v->json) return err_set(e, ERR_USAGE, "plan: give one of --dump and --json");
    int rc = auto_open(&g, &o->model, e);
    if (rc) return rc;
    rc = v->json ? print_json(g, o, e) : print_text(g, o, e);
    engine_close(g);
    return rc;
}

const command command_plan = {
    .name = "plan",
    .summary = "which layers and bytes land on which device, and the predicted time",
    .prints_json = true,
    .flags = flags,
    .options_size = sizeof(plan_command_options),
    .notes = "Each device has a line: the layers of its group, then what it has of them: attention heads, heads of\n"
             "keys and values (kv), columns inside a feed-forward network (ffn), rows of the vocabulary. Devices\n"
             "joined by & share the layers of their group. MiB: the weights that a device reads; those of them\n"
             "that it holds in memory of its own, because it cannot use them in the mapped file (own); the cache\n"
             "of keys and values; the working memory of a step.\n"
             "\n"
             "Links to nodes are measured, as bench link does. The predicted time comes from a trial of about a\n"
             "second on all devices, in which a short text, or the beginning of a longer one, is read and\n"
             "continued. The share of communication is the part of the time in which no device computes.\n"
             "--dump tries nothing.\n"
             "\n"
             "  inferflow plan --model DIR --devices 'cpu:1&cpu:1;cpu:2'\n",
    .run = run_plan,
};
