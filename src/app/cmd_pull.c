/* cmd_pull.c - `inferflow pull`: a model of the hub into the cache of this machine, then its spec. */
#include "app/app.h"
#include "base/mem.h"
#include "hub/hub_pull.h"
#include "models/model.h"

#include <stdio.h>

typedef struct pull_flags {
    const char *endpoint;
    int64_t connections;
} pull_flags;

#define ROW(field, kind, ...) PARAM_ROW(pull_flags, field, kind, __VA_ARGS__)
static const param rows[] = {
    ROW(endpoint, PARAM_TEXT, .words = "URL", .doc = "another hub than HF_ENDPOINT or https://huggingface.co"),
    ROW(connections, PARAM_INT, .otherwise = "8", .min = 1, .max = 64, .rare = true, .doc = "at once"),
};
static const size_t n_rows = sizeof rows / sizeof *rows;

static const flag_group flags[] = {{"Download", rows, &n_rows, 0}, {0}};

static int print_spec(const char *path, err *e)
{
    model *m;
    buf out = {0};
    const model_options mo = {.model_path = path};
    int rc = model_open(&m, &mo, e);
    if (rc) return err_wrap(e, "it is downloaded, but does not load");
    rc = model_spec_text(m, &out, e);
    if (!rc) fwrite(out.p, 1, out.n, stdout);
    buf_free(&out);
    model_close(m);
    return rc;
}

static int run_pull(const invocation *v, err *e)
{
    const pull_flags *o = v->options;
    const char *given = v->operand[0];
    hub_name name;
    char *path = NULL;
    if (!hub_name_read(&name, given))
        return err_set(e, ERR_USAGE, "pull %.100s: a model of the hub is called ORG/NAME[:FILE|:TYPE][@REV]", given);
    int rc = hub_pull(&name, o->endpoint, (int)o->connections, &path, e);
    if (!rc) rc = print_spec(path, e);
    mem_free(path);
    return rc;
}

const command command_pull = {
    .name = "pull",
    .summary = "download a model from the hub, for -m ORG/NAME, and print its spec",
    .operands = "ORG/NAME[:FILE|:TYPE][@REV]",
    .operand_min = 1,
    .operand_max = 1,
    .flags = flags,
    .options_size = sizeof(pull_flags),
    .notes = "Only the files that loading needs come, into the folder that Python's huggingface_hub and llama.cpp\n"
             "share (HF_HUB_CACHE, HF_HOME). Of several GGUF files TYPE chooses, such as Q8_0; without it Q4_K_M,\n"
             "another Q4, or the first. What is interrupted goes on at the next call.\n"
             "\n"
             "  inferflow pull Qwen/Qwen3-0.6B && inferflow run -m Qwen/Qwen3-0.6B\n"
             "  inferflow pull ggml-org/gemma-3-1b-it-GGUF:Q8_0\n",
    .run = run_pull,
};
