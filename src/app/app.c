/* app.c - argv to exit status; see app.h. */
#include "app/app.h"

#include "app/cmd_list.h"
#include "app/flags.h"
#include "app/hub_models.h"
#include "app/output_check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/terminal.h"
#include "base/version.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

const command *const command_all[] = {
#define X(name) &command_##name,
    COMMAND_LIST(X)
#undef X
        NULL};

enum { HELP_WIDTH = 100, HELP_WIDTH_MIN = 40 };

static int tell_error(const err *e)
{
    log_progress_end();
    fprintf(stderr, "inferflow: error: %s\n", e->msg);
    return e->code == ERR_USAGE ? 2 : 1;
}

/* Output that could not be written is a failure of any command. */
static int finish_output(err *e)
{
    if (fflush(stdout) != 0) return err_set(e, ERR_IO, "standard output: %s", strerror(errno));
    return ferror(stdout) ? err_set(e, ERR_IO, "standard output: not all of it could be written") : OK;
}

static void print_buf(buf *b, FILE *to)
{
    fwrite(b->p, 1, b->n, to);
    buf_free(b);
}

/* Columns of help: those of the terminal it goes to, at most 100. */
static int help_width(FILE *to)
{
    const int columns = terminal_columns(fileno(to));
    return columns <= 0 || columns > HELP_WIDTH ? HELP_WIDTH : columns < HELP_WIDTH_MIN ? HELP_WIDTH_MIN : columns;
}

static void print_overview(FILE *to)
{
    buf b = {0}, lines = {0};
    buf_str(&b, "inferflow: run and serve transformer models, on one machine or several\n\n"
                "usage: inferflow COMMAND [flags]\n\ncommands:\n");
    for (const command *const *c = command_all; *c; c++) buf_printf(&b, "  %-12s %s\n", (*c)->name, (*c)->summary);
    buf_str(&b, "\n`inferflow COMMAND --help` lists the flags of a command that many need, `--help-all` all of them;\n"
                "`inferflow -V` prints the version.\n"
                "Without --model and --spec a command uses the built-in model, a toy:\n\n"
                "  inferflow run -m MODEL            chat on this terminal; MODEL is a folder, a file or ORG/NAME\n"
                "  inferflow run -m MODEL -p TEXT    continue a text\n"
                "  inferflow serve -m MODEL          OpenAI-compatible server, with a chat page\n");
    param_wrap(buf_cstr(&b), help_width(to), &lines);
    buf_free(&b);
    print_buf(&lines, to);
}

/* What users of Ollama, llama.cpp and vLLM type. */
static const struct {
    const char *words, *hint;
} foreign[] = {
    {"chat", "`inferflow run -m MODEL` chats"},
    {"generate|complete|completion-text", "`inferflow run -m MODEL -p TEXT` continues a text"},
    {"show", "`inferflow info -m MODEL` shows what a model is"},
    {"download|fetch", "`inferflow pull ORG/NAME` downloads a model"},
    {"list|ls|ps|rm|cp|create|stop|models", "models are folders and files of this machine: -m MODEL takes one"},
    {"start|server|api_server", "`inferflow serve -m MODEL` serves"},
    {"benchmark|llama-bench", "`inferflow bench -m MODEL` measures"},
    {"convert", "`inferflow export -m MODEL -o OUT` writes other formats; none is needed to run a model"},
    {"worker|rpc-server", "`inferflow node` lends this machine's devices"},
};

static const char *foreign_hint(const char *name)
{
    for (size_t i = 0; *name && i < sizeof foreign / sizeof *foreign; i++)
        if (param_words_have(foreign[i].words, span_str(name))) return foreign[i].hint;
    return NULL;
}

static const command *find_command(const char *name, err *e)
{
    const command *near = NULL;
    const char *hint = foreign_hint(name);
    int best = 3;
    for (const command *const *c = command_all; *c; c++) {
        int d = edit_distance((*c)->name, name);
        if (d == 0) return *c;
        if (d < best) {
            best = d;
            near = *c;
        }
    }
    if (hint) err_set(e, ERR_USAGE, "unknown command \"%.40s\": %s", name, hint);
    else if (near) err_set(e, ERR_USAGE, "unknown command \"%.40s\"; did you mean %s?", name, near->name);
    else err_set(e, ERR_USAGE, "unknown command \"%.40s\"; `inferflow --help` lists them", name);
    return NULL;
}

static int run_command(const command *cmd, int argc, char **argv, err *e)
{
    invocation v = {.cmd = cmd, .options = mem_zero(1, cmd->options_size + 1)};
    common_flags common;
    spec *over;
    if (!v.options) return err_memory(e, NULL);
    int rc = flags_parse(&v, &common, argc, argv, &over, e);
    if (!rc && common.help) {
        buf b = {0};
        flags_help(cmd, common.help_all, help_width(stdout), &b);
        print_buf(&b, stdout);
    } else if (!rc) {
        if (common.log_level) log_set_level(common.log_level);
        rc = output_check(&v, e);
        if (!rc) rc = cmd->run(&v, e);
    }
    spec_free(over);
    hub_models_free(&v);
    mem_free(v.options);
    return rc;
}

/* Letters as the user's locale has them, and as UTF-8 where it has ASCII alone, as in most containers. Never
 * LC_NUMERIC: number texts use the C locale. */
static void set_letters(void)
{
    setlocale(LC_CTYPE, "");
    const char *letters = nl_langinfo(CODESET);
    if (strcmp(letters, "ANSI_X3.4-1968") == 0 || strcmp(letters, "US-ASCII") == 0) setlocale(LC_CTYPE, "C.UTF-8");
}

/* `inferflow help [--all] [COMMAND]`, or another word that asks for help before one that may be a command. */
static int help(int argc, char **words, err *e)
{
    const char *name = NULL;
    bool all = flags_help_wanted(argc, words) == HELP_ALL;
    for (int i = 1; i < argc; i++)
        if (strcmp(words[i], "--all") == 0 || strcmp(words[i], "-a") == 0) all = true;
        else if (*words[i] != '-' && !name) name = words[i];
    const command *cmd = name ? find_command(name, e) : NULL;
    char *flag[] = {all ? "--help-all" : "--help"};
    if (cmd) return run_command(cmd, 1, flag, e);
    if (!name) print_overview(stdout);
    return name ? e->code : OK;
}

int app_main(int argc, char **argv)
{
    signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes is an error of the write */
    set_letters();
    err e = {0};
    if (argc < 2) {
        print_overview(stderr);
        return 2;
    }
    const char *word = argv[1];
    int rc = OK;
    if (!strcmp(word, "help") || flags_help_wanted(1, &argv[1])) {
        rc = help(argc - 1, argv + 1, &e);
    } else if (*word == '-' && flags_help_wanted(argc - 1, argv + 1)) {
        print_overview(stdout);
    } else if (!strcmp(word, "--version") || !strcmp(word, "-V") || !strcmp(word, "version")) {
        printf("inferflow %s\n", inferflow_version);
    } else {
        const command *cmd = find_command(word, &e);
        rc = cmd ? run_command(cmd, argc - 2, argv + 2, &e) : e.code;
    }
    if (!rc) rc = finish_output(&e);
    if (!rc) return 0;
    if (!e.code) err_set(&e, rc, "failed (code %d)", rc);
    return tell_error(&e);
}

int app_print_json(const json *j, err *e)
{
    buf b = {0};
    int rc = OK;
    log_progress_end();
    if (!j || !json_print(&b, j, false) || !buf_byte(&b, '\n')) rc = err_memory(e, NULL);
    else fwrite(b.p, 1, b.n, stdout);
    buf_free(&b);
    return rc;
}
