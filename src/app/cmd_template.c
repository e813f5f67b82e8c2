/* cmd_template.c - `inferflow template`: renders a chat template, as transformers would. */
#define _GNU_SOURCE
#include "app/app.h"
#include "base/file.h"
#include "jinja/jinja.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { TEMPLATE_BYTES_MAX = 4 << 20, CONTEXT_BYTES_MAX = 64 << 20 };

typedef struct template_options {
    const char *file, *context, *now;
} template_options;

#define ROW(field, kind, ...) PARAM_ROW(template_options, field, kind, __VA_ARGS__)

static const param own_rows[] = {
    ROW(file, PARAM_TEXT, .alias = "f", .words = "FILE", .path = PATH_FILE, .doc = "the template, in Jinja"),
    ROW(context, PARAM_TEXT, .words = "FILE", .path = PATH_FILE,
        .doc = "its variables: a JSON object (messages, tools, add_generation_prompt, bos_token, …)"),
    ROW(now, PARAM_TEXT, .words = "YYYY-MM-DD", .doc = "the day that strftime_now tells (default: today)"),
};
static const size_t own_count = sizeof own_rows / sizeof *own_rows;
static const flag_group groups[] = {{"Template", own_rows, &own_count, 0}, {NULL}};

static int read_day(const char *text, time_t *out, err *e)
{
    struct tm tm = {.tm_hour = 12, .tm_isdst = -1};
    const char *end = strptime(text, "%Y-%m-%d", &tm);
    if (!end || *end) return err_set(e, ERR_USAGE, "--now: expected YYYY-MM-DD, got \"%.40s\"", text);
    *out = mktime(&tm);
    return OK;
}

static int render_source(const template_options *o, const jinja_input *in, span source, err *e)
{
    jinja *t;
    jinja_output out = {0};
    int rc = jinja_open(&t, source, e);
    if (!rc) rc = jinja_render(t, in, &out, e);
    if (rc) err_wrap(e, "%s", o->file);
    bool ok = rc || (fwrite(out.text.p ? (const char *)out.text.p : "", 1, out.text.n, stdout) == out.text.n &&
                     fflush(stdout) == 0);
    if (!ok) rc = err_set(e, ERR_IO, "cannot write to standard output");
    jinja_output_free(&out);
    jinja_close(t);
    return rc;
}

static int run_template(const invocation *v, err *e)
{
    const template_options *o = v->options;
    buf source = {0}, context = {0};
    jinja_input in = {.now = time(NULL)};
    if (!o->file) return err_set(e, ERR_USAGE, "template: --file is missing");
    int rc = o->now ? read_day(o->now, &in.now, e) : OK;
    if (!rc) rc = file_read_text(&source, o->file, TEMPLATE_BYTES_MAX, e);
    if (!rc && o->context) rc = file_read_text(&context, o->context, CONTEXT_BYTES_MAX, e);
    in.context = o->context ? buf_span(&context) : span_str("{}");
    if (!rc) rc = render_source(o, &in, buf_span(&source), e);
    buf_free(&source);
    buf_free(&context);
    return rc;
}

const command command_template = {
    .name = "template",
    .summary = "render a chat template",
    .flags = groups,
    .options_size = sizeof(template_options),
    .run = run_template,
    .notes = "Templates are rendered with the settings of transformers: trim_blocks, lstrip_blocks, an immutable\n"
             "sandbox, raise_exception, strftime_now.\n"
             "\n"
             "  inferflow template --file chat_template.jinja --context conversation.json\n",
};
