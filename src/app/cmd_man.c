/* cmd_man.c - `inferflow man`: the manual page, made from the tables of commands and flags: roff, with the macros of
 * man(7). */
#include "app/flags.h"
#include "base/utf8.h"
#include "base/version.h"

#include <stdio.h>
#include <string.h>

/* A text in which nothing is a request or an escape: '-' is one that can be copied, '_' in keys is '-'. */
static void add_text(buf *out, const char *text, bool key)
{
    bool begin = true;
    size_t n = 1;
    for (const char *c = text, *end = text + strlen(text); c < end; begin = *c == '\n', c += n) {
        const uint32_t letter = utf8_decode((const uint8_t *)c, (size_t)(end - c), &n);
        if (begin && (*c == '.' || *c == '\'')) buf_str(out, "\\&");
        if (*c == '\\') buf_str(out, "\\e");
        else if (*c == '~') buf_str(out, "\\(ti"); /* not an accent */
        else if (letter > 127) buf_printf(out, "\\[u%04X]", (unsigned)letter);
        else if (*c == '-' || (key && *c == '_')) buf_str(out, "\\-");
        else buf_byte(out, (uint8_t)*c);
    }
}

static void add_name(buf *out, const char *name)
{
    buf_str(out, name[1] ? "\\fB\\-\\-" : "\\fB\\-");
    add_text(out, name, true);
    buf_str(out, "\\fR");
}

static void add_flag(buf *out, const param *p)
{
    buf_str(out, ".TP\n");
    add_name(out, p->key);
    if (p->alias) {
        buf_str(out, ", ");
        add_name(out, p->alias);
    }
    const char *value = p->words                 ? p->words
                        : p->type == PARAM_INT   ? "N"
                        : p->type == PARAM_FLOAT ? "F"
                        : p->type == PARAM_TEXT  ? "TEXT"
                                                 : "BYTES";
    if (p->type != PARAM_BOOL) {
        buf_str(out, " \\fI");
        add_text(out, value, false);
        buf_str(out, "\\fR");
    }
    buf_byte(out, '\n');
    add_text(out, p->doc ? p->doc : "", false);
    if (p->otherwise && *p->otherwise && !(p->doc && strstr(p->doc, "(default"))) {
        buf_str(out, " (default ");
        add_text(out, p->otherwise, false);
        buf_byte(out, ')');
    }
    buf_byte(out, '\n');
}

/* The first command with the same rows in a group of the same name: where they are described. */
static const command *described_at(const param *rows, size_t n, const char *title)
{
    for (const command *const *c = command_all; *c; c++) {
        const char *other;
        size_t k;
        for (size_t g = 0; flags_rows(*c, g, &k, &other); g++)
            if (flags_rows(*c, g, &k, &other) == rows && k >= n && strcmp(other, title) == 0) return *c;
    }
    return NULL;
}

static void add_command(buf *out, const command *c)
{
    size_t n;
    const char *title;
    const param *rows;
    buf_str(out, ".SS inferflow ");
    add_text(out, c->name, false);
    if (c->operands) {
        buf_byte(out, ' ');
        add_text(out, c->operands, false);
    }
    buf_byte(out, '\n');
    add_text(out, c->summary, false);
    buf_byte(out, '\n');
    for (size_t g = 0; (rows = flags_rows(c, g, &n, &title)); g++) {
        const command *where = described_at(rows, n, title);
        if (where && where != c) {
            buf_printf(out, ".PP\n%s: as of \\fB%s\\fR.\n", title, where->name);
            continue;
        }
        buf_printf(out, ".PP\n%s:\n", title);
        for (size_t i = 0; i < n; i++) {
            if (rows[i].heading) buf_printf(out, ".PP\n%s:\n", rows[i].heading);
            add_flag(out, &rows[i]);
        }
    }
    if (!c->notes) return;
    buf_str(out, ".PP\n.nf\n");
    add_text(out, c->notes, false);
    buf_str(out, ".fi\n");
}

typedef struct place {
    const char *name, *doc;
} place;

static const place environment[] = {
    {"NO_COLOR", "not empty: conversations have no colours."},
    {"TERM", "dumb: no progress bars, no colours."},
    {"LANG, LC_ALL, LC_CTYPE", "the letters of the terminal; UTF-8 where they name ASCII or nothing."},
    {"HF_HUB_CACHE, HF_HOME", "folder of models of the hub; ~/.cache/huggingface/hub where neither is set."},
    {"HF_ENDPOINT, HF_TOKEN, HF_TOKEN_PATH, HF_HUB_OFFLINE", "the hub, the user's token or its file, no downloads."},
    {"XDG_CACHE_HOME", "folder of inferflow/ with what was hashed of weights; ~/.cache where it is not set."},
    {"XDG_STATE_HOME", "folder of inferflow/history; ~/.local/state where it is not set."},
    {"NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID", "set by systemd: serve tells it that it is ready and alive."},
};
static const place files[] = {
    {"~/.cache/inferflow/*.sums", "digests of weights files, so that they are not hashed again."},
    {"~/.local/state/inferflow/history", "what was typed in conversations."},
    {"config.json, generation_config.json, tokenizer.json, ...",
     "read beside a model's weights, where they are there."},
};

static void add_places(buf *out, const char *title, const place *p, size_t n)
{
    buf_printf(out, ".SH %s\n", title);
    for (size_t i = 0; i < n; i++) {
        buf_str(out, ".TP\n.B ");
        add_text(out, p[i].name, false);
        buf_byte(out, '\n');
        add_text(out, p[i].doc, false);
        buf_byte(out, '\n');
    }
}

static int run_man(const invocation *v, err *e)
{
    (void)v;
    buf b = {0};
    buf_printf(&b, ".TH INFERFLOW 1 \"\" \"inferflow %s\" \"User Commands\"\n.SH NAME\n", INFERFLOW_RELEASE);
    buf_str(&b,
            "inferflow \\- run and serve transformer models\n.SH SYNOPSIS\n.B inferflow\n"
            "\\fICOMMAND\\fR [\\fIflags\\fR]\n.SH DESCRIPTION\n"
            "Reads a transformer model in any usual file format, and runs it on the command line or behind an HTTP\n"
            "API that clients of OpenAI's understand. Without \\fB\\-\\-model\\fR and \\fB\\-\\-spec\\fR a command "
            "uses the built\\-in model.\n.PP\n"
            "\\fBinferflow\\fR \\fICOMMAND\\fR \\fB\\-\\-help\\fR lists the flags that many need, "
            "\\fB\\-\\-help\\-all\\fR all of them.\n.PP\n"
            "A flag overrides the key of the same name in a spec's [runtime], [serve] or [generate].\n.SH COMMANDS\n");
    for (const command *const *c = command_all; *c; c++) add_command(&b, *c);
    buf_str(
        &b,
        ".SH SIGNALS\n\\fBserve\\fR: SIGTERM lets streams finish, a second one ends at once; SIGHUP reads keys and\n"
        "certificate again.\n");
    add_places(&b, "ENVIRONMENT", environment, sizeof environment / sizeof *environment);
    add_places(&b, "FILES", files, sizeof files / sizeof *files);
    buf_str(&b, ".SH EXIT STATUS\n0: done. 1: failed. 2: wrong usage.\n.SH EXAMPLES\n.nf\n"
                "inferflow run \\-p \"Once upon a time\"\ninferflow serve \\-m DIR \\-\\-port 8080\n.fi\n");
    if (!b.bad) fwrite(b.p, 1, b.n, stdout);
    int rc = b.bad ? err_memory(e, NULL) : OK;
    buf_free(&b);
    return rc;
}

const command command_man = {
    .name = "man", .summary = "the manual page, as roff: inferflow man | man -l -", .run = run_man};
