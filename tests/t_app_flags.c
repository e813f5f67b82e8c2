/* t_app_flags.c - the command line: flags of every shape, help made from rows, ids, exit statuses. */
#include "tests/test.h"

#include "app/cmd_list.h"
#include "app/flags.h"
#include "app/ids.h"
#include "base/file.h"
#include "base/mem.h"

typedef struct inner {
    double heat;
    const char *text;
} inner;
typedef struct options {
    int64_t count;
    bool loud, exact;
    const char *kind;
    inner in;
} options;

static const param own_rows[] = {
    {.key = "count",
     .type = PARAM_INT,
     .offset = offsetof(options, count),
     .otherwise = "7",
     .max = 100,
     .alias = "n",
     .doc = "how many"},
    {.key = "loud", .type = PARAM_BOOL, .offset = offsetof(options, loud), .doc = "louder"},
    {.key = "exact",
     .type = PARAM_BOOL,
     .offset = offsetof(options, exact),
     .otherwise = "on",
     .words = "on|off",
     .doc = "exact"},
    {.key = "output_kind",
     .type = PARAM_WORD,
     .offset = offsetof(options, kind),
     .otherwise = "a",
     .words = "a|b",
     .doc = "kind"},
};
static const param inner_rows[] = {
    {.key = "heat",
     .type = PARAM_FLOAT,
     .offset = offsetof(inner, heat),
     .alias = "temp",
     .min = -1,
     .max = 2,
     .doc = "heat"},
    {.key = "text", .type = PARAM_TEXT, .offset = offsetof(inner, text), .alias = "p", .doc = "text"},
};
static const size_t own_count = 4, inner_count = 2;
static const flag_group groups[] = {
    {"Own", own_rows, &own_count, 0}, {"Inner", inner_rows, &inner_count, offsetof(options, in)}, {NULL}};
static const command cmd = {.name = "test",
                            .summary = "a test",
                            .operands = "[FILE]",
                            .operand_max = 2,
                            .flags = groups,
                            .options_size = sizeof(options)};

static options got;
static invocation call;
static common_flags common;

/* Parses a line split at blanks; "_" stands for an empty word. */
static int parse(const char *line, err *e)
{
    static char copy[512];
    static char *word[64];
    int n = 0;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *w = strtok(copy, " "); w; w = strtok(NULL, " ")) word[n++] = strcmp(w, "_") ? w : w + 1;
    memset(&got, 0, sizeof got);
    *e = (err){0};
    call = (invocation){.cmd = &cmd, .options = &got};
    return flags_parse(&call, &common, n, word, NULL, e);
}

static void flags_of_every_shape(void **state)
{
    (void)state;
    err e;
    assert_ok(parse("", &e), &e);
    assert_int_equal(got.count, 7);
    assert_true(got.exact);
    assert_false(got.loud);
    assert_string_equal(got.kind, "a");
    assert_ok(parse("--count 5 a --loud --exact off --output-kind=b -p hello b --temp -0.5", &e), &e);
    assert_int_equal(got.count, 5);
    assert_true(got.loud);
    assert_false(got.exact);
    assert_string_equal(got.kind, "b");
    assert_string_equal(got.in.text, "hello");
    assert_true(got.in.heat == -0.5);
    assert_int_equal(call.n_operand, 2);
    assert_string_equal(call.operand[0], "a");
    assert_string_equal(call.operand[1], "b");
    assert_ok(parse("-n3 -n 9 --no-exact --output_kind b -p --loud", &e), &e); /* a value may look like a flag */
    assert_int_equal(got.count, 9);
    assert_false(got.exact);
    assert_false(got.loud);
    assert_string_equal(got.in.text, "--loud");
    assert_ok(parse("--text= -- --loud -", &e), &e);
    assert_string_equal(got.in.text, "");
    assert_int_equal(call.n_operand, 2);
    assert_string_equal(call.operand[0], "--loud");
    assert_ok(parse("--loud file", &e), &e); /* a switch does not eat the next word */
    assert_int_equal(call.n_operand, 1);
    assert_ok(parse("--help", &e), &e);
    assert_true(common.help);
}

static void expect_usage(const char *line, const char *part)
{
    err e;
    assert_int_equal(parse(line, &e), ERR_USAGE);
    if (!strstr(e.msg, part)) fail_msg("\"%s\" gives \"%s\", expected \"%s\"", line, e.msg, part);
}

static void wrong_flags_are_named(void **state)
{
    (void)state;
    expect_usage("--cuont 5", "--cuont; did you mean --count?");
    expect_usage("--otput-kind b", "did you mean --output-kind?");
    expect_usage("--zzzzzzzzz", "unknown flag --zzzzzzzzz");
    expect_usage("-x", "unknown flag -x");
    expect_usage("--count", "--count: needs a value");
    expect_usage("--count five", "--count: 'five' is not a whole number");
    expect_usage("--count=101", "out of range");
    expect_usage("--heat nan", "not a number");
    expect_usage("--output-kind c", "not one of a|b");
    expect_usage("--no-count", "unknown flag");
    expect_usage("--no-loud=1", "takes no value");
    expect_usage("--p x", "unknown flag --p"); /* short flags have one dash */
    expect_usage("--json", "unknown flag");    /* this command prints none */
    expect_usage("a b c", "unexpected word \"c\"");
}

static void help_lists_every_row(void **state)
{
    (void)state;
    buf b = {0};
    assert_true(flags_help(&cmd, false, 100, &b));
    const char *text = buf_cstr(&b);
    const char *parts[] = {"usage: inferflow test [FILE] [flags]",
                           "Own:",
                           "-n, --count N",
                           "(default 7)",
                           "Inner:",
                           "--heat",
                           "--help-all",
                           "`inferflow test --help-all` lists 2 more flags."};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i])) fail_msg("help lacks \"%s\":\n%s", parts[i], text);
    assert_null(strstr(text, "--json"));
    assert_null(strstr(text, "--log-level"));
    buf_free(&b);
    assert_true(flags_help(&cmd, true, 100, &b));
    assert_non_null(strstr(buf_cstr(&b), "--log-level"));
    buf_free(&b);
}

static const command *const all[] = {
#define X(name) &command_##name,
    COMMAND_LIST(X)
#undef X
};

/* Characters of the line at `text`, to its end. */
static int columns(const char *text)
{
    int n = 0;
    for (; *text && *text != '\n'; text++) n += (*text & 0xC0) != 0x80;
    return n;
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (; (text = strstr(text, what)); text++) n++;
    return n;
}

/* --help has at most so many flags, --help-all all of them. */
enum { COMMON_MAX = 30 };

static void help_fits_the_screen_and_names_aliases(void **state)
{
    (void)state;
    static const int widths[] = {100, 80, 60, 40};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        buf b = {0};
        assert_true(flags_help(all[i], false, 80, &b));
        const size_t flags = count(buf_cstr(&b), "\n  -");
        if (flags > COMMON_MAX) fail_msg("%s: %zu flags in --help", all[i]->name, flags);
        buf_free(&b);
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            buf_free(&b);
            assert_true(flags_help(all[i], true, widths[w], &b));
            for (const char *line = buf_cstr(&b); line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
                const int most = widths[w], n = (int)strcspn(line, "\n"), begin = (int)strspn(line, " ");
                const bool breaks = memchr(line + begin, ' ', (size_t)(n - begin)) && strncmp(line, "  -", 3) != 0;
                if (columns(line) > most && (breaks || most == 100))
                    fail_msg("%s: a line of %d columns on %d: %.*s", all[i]->name, columns(line), most, n, line);
            }
        }
        buf_free(&b);
        assert_true(flags_help(all[i], true, 100, &b));
        for (const char *line = buf_cstr(&b); line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
            const char *first = strstr(line, "(default"), *second = first ? strstr(first + 1, "(default") : NULL;
            if (second && second < strstr(line, "\n")) fail_msg("%s: two defaults: %s", all[i]->name, line);
        }
        for (const flag_group *g = all[i]->flags; g && g->title; g++)
            for (size_t r = 0; r < *g->n; r++) {
                char alias[80];
                const param *p = &g->rows[r];
                if (!p->alias) continue;
                snprintf(alias, sizeof alias, "%s%s", p->alias[1] ? ", --" : "  -", p->alias);
                for (char *c = alias; *c; c++) *c = *c == '_' ? '-' : *c;
                if (!strstr(buf_cstr(&b), alias)) fail_msg("%s: help lacks \"%s\"", all[i]->name, alias);
            }
        buf_free(&b);
    }
}

/* A key as it is printed: with '-' for '_', in the manual page "\-". */
static const char *printed(const char *key, bool manual)
{
    static char text[200];
    size_t at = 0;
    for (; *key && at < 190; key++) {
        const bool dash = *key == '_' || *key == '-';
        if (manual && dash) text[at++] = '\\';
        text[at++] = dash ? '-' : *key;
    }
    text[at] = 0;
    return text;
}

static int status_of(const char *args)
{
    char line[512];
    const char *bin = getenv("INFERFLOW_BIN");
    snprintf(line, sizeof line, "%s %s 2>/dev/null", bin ? bin : "build/inferflow", args);
    int rc = system(line);
    return rc < 0 ? rc : rc >> 8;
}

/* Every command and flag is in the manual page and in the completion of each shell. */
static void pages_name_every_flag(void **state)
{
    (void)state;
    char *calls[][4] = {
        {"inferflow", "man"},
        {"inferflow", "completion", "bash"},
        {"inferflow", "completion", "zsh"},
        {"inferflow", "completion", "fish"},
    };
    for (size_t i = 0; i < 4; i++) {
        buf text = {0};
        const char *path = temp_path("page");
        int old = dup(STDOUT_FILENO);
        fflush(stdout);
        assert_non_null(freopen(path, "w", stdout));
        int rc = app_main(i ? 3 : 2, calls[i]);
        fflush(stdout);
        dup2(old, STDOUT_FILENO);
        close(old);
        assert_int_equal(rc, 0);
        err e = {0};
        assert_ok(file_read(&text, path, 1 << 22, &e), &e);
        unlink(path);
        for (const command *const *c = command_all; *c; c++) {
            const char *title;
            size_t n;
            const param *rows;
            const char *name = printed((*c)->name, i == 0);
            if (!strstr(buf_cstr(&text), name)) fail_msg("%s: no %s", calls[i][i ? 2 : 1], name);
            for (size_t g = 0; (rows = flags_rows(*c, g, &n, &title)); g++)
                for (size_t k = 0; k < n; k++) {
                    const char *flag = printed(rows[k].key, i == 0);
                    if (!strstr(buf_cstr(&text), flag)) fail_msg("%s: no --%s", calls[i][i ? 2 : 1], flag);
                }
        }
        buf_free(&text);
    }
    static const char *const said[] = {"inferflow .- run and serve transformer models",
                                       "^.SH ENVIRONMENT",
                                       "NO_COLOR",
                                       "XDG_CACHE_HOME",
                                       "^.SH FILES",
                                       "local/state/inferflow/history"};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        char line[300];
        snprintf(line, sizeof line, "man | grep -q -e '%s'", said[i]);
        if (status_of(line) != 0) fail_msg("the manual page lacks \"%s\"", said[i]);
    }
    char *unknown[] = {"inferflow", "completion", "tcsh"};
    assert_int_equal(app_main(3, unknown), 2);
}

/* What bash completes: words as it splits them, and what it offers first. */
static void shells_complete_words(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"r", "run replay"},
        {"help ru", "run"},
        {"help --a", "--all"},
        {"spec de", "derive"},
        {"spec ''", "show derive check import list modules"},
        {"bench l", "link"},
        {"eval per", "perplexity"},
        {"completion z", "zsh"},
        {"run --kv q", "q8 q4"},
        {"run --kv = q", "q8 q4"},
        {"run --kv =", "f32 f16 i16 q8 q4"},
        {"run --kv=q", "--kv=q8 --kv=q4"},
        {"run --repeat", "--repeat-penalty"},
        {"run --help-", "--help-all"},
        {"run --model = tests/vectors/mod", "tests/vectors/models"},
        {"run --model=tests/vectors/mod", "--model=tests/vectors/models"},
        {"run -m tests/vectors/mod", "tests/vectors/models"},
        {"spec check tests/vectors/mod", "tests/vectors/models"},
    };
    const char *bin = getenv("INFERFLOW_BIN");
    if (system("bash -c 'type mapfile' >/dev/null 2>&1") != 0) {
        skip_msg("no bash here");
        return;
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[1000];
        snprintf(line, sizeof line,
                 "bash -c 'eval \"$(%s completion bash)\"; COMP_WORDS=(inferflow \"$@\"); COMP_CWORD=$#; _inferflow; "
                 "[ \"${COMPREPLY[*]}\" = \"%s\" ] || { echo \"${COMPREPLY[*]}\"; exit 1; }' bash %s",
                 bin ? bin : "build/inferflow", cases[i][1], cases[i][0]);
        if (system(line) != 0) fail_msg("inferflow %s: not \"%s\"", cases[i][0], cases[i][1]);
    }
}

static void every_command_is_complete(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const command *c = all[i];
        assert_true(c->name && c->summary && c->run);
        assert_true(!c->operands == !c->operand_max);
        for (const flag_group *g = c->flags; g && g->title; g++)
            for (size_t r = 0; r < *g->n; r++) {
                const param *p = &g->rows[r];
                if (!p->doc) fail_msg("%s: --%s has no doc", c->name, p->key);
                bool file = p->type == PARAM_TEXT && p->words &&
                            (strstr(p->words, "FILE") || strstr(p->words, "PATH") || strstr(p->words, "DIR") ||
                             (strchr(p->words, '.') && !strchr(p->words, ',')) || strstr(p->words, "IDS"));
                bool output = p->type == PARAM_TEXT &&
                              (strcmp(p->key, "output") == 0 || (p->alias && *p->alias == 'o'));
                if (output ? p->path != PATH_OUT && p->path != PATH_EXPORT
                           : file != (p->path != PATH_NONE)) /* output_check goes by it */
                    fail_msg("%s: --%s %s: .path does not say what the command does with the file", c->name, p->key,
                             p->words);
                for (const flag_group *h = c->flags; h->title; h++) /* a key means one thing within a command */
                    for (size_t q = 0; q < *h->n; q++)
                        if ((g != h || r != q) && param_find(&h->rows[q], 1, g->rows[r].key))
                            fail_msg("%s: --%s is there twice", c->name, g->rows[r].key);
            }
    }
}

static void ids_in_every_spelling(void **state)
{
    (void)state;
    static const char *const good[] = {"1,2,300", "[1, 2, 300]", " 1 2\n300 ", "[1,2,300]\n", "1 , 2 ,300"};
    err e = {0};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        token_list l = {0};
        assert_ok(ids_parse(&l, good[i], &e), &e);
        assert_int_equal(l.n, 3);
        assert_int_equal(l.id[2], 300);
        mem_free(l.id);
    }
    static const char *const bad[] = {"1,x",  "-1",   "2147483648", "1.5",  "[1", "99999999999999999999",
                                      "1,2]", "1,2,", ",1",         "1,,2", ",",  "[1,]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        token_list l = {0};
        e = (err){0};
        if (ids_parse(&l, bad[i], &e) != ERR_USAGE) fail_msg("\"%s\" was taken", bad[i]);
        mem_free(l.id);
    }
    token_list l = {0};
    e = (err){0};
    assert_ok(ids_parse(&l, " [ ] ", &e), &e);
    assert_int_equal(l.n, 0);
    assert_int_equal(ids_parse(&l, "@/nonexistent/ids", &e), ERR_NOT_FOUND);
    const char *path = temp_path("ids.json");
    FILE *f = fopen(path, "w");
    fputs("[5, 6]\n", f);
    fclose(f);
    char arg[300];
    snprintf(arg, sizeof arg, "@%s", path);
    e = (err){0};
    assert_ok(ids_parse(&l, arg, &e), &e);
    assert_int_equal(l.n, 2);
    mem_free(l.id);
    unlink(path);
}

static void exit_statuses(void **state)
{
    (void)state;
    assert_int_equal(status_of("--help"), 0);
    assert_int_equal(status_of(""), 2);
    assert_int_equal(status_of("2>&1 >/dev/null | grep -q '^usage: '"), 0);
    assert_int_equal(status_of("--version"), 0);
    assert_int_equal(status_of("-V | grep -q '^inferflow '"), 0);
    assert_int_equal(status_of("--help | awk 'length > 100 { exit 1 }'"), 0);
    assert_int_equal(status_of("info --json"), 0);
    assert_int_equal(status_of("help info"), 0);
    assert_int_equal(status_of("help --all run | grep -q -e --codec-group"), 0);
    assert_int_equal(status_of("help run --all | grep -q -e --codec-group"), 0);
    assert_int_equal(status_of("run --help-all | grep -q -e --codec-group"), 0);
    assert_int_equal(status_of("run --help | grep -q -e --codec-group"), 1);
    assert_int_equal(status_of("fill-mask --help | grep -q -e --peers"), 1);
    assert_int_equal(status_of("--nonsense x --help | grep -q '^usage: '"), 0);
    assert_int_equal(status_of("serve --port x --help-all | grep -q -e --codec-group"), 0);
    assert_int_equal(status_of("run a b c -m x --help"), 0);
    assert_int_equal(status_of("help nonsense"), 2);
    assert_int_equal(status_of("nonsense"), 2);
    /* words that users of other programs type */
    assert_int_equal(status_of("chat 2>&1 | grep -q 'inferflow run -m MODEL'"), 0);
    assert_int_equal(status_of("rm x 2>&1 | grep -qv 'did you mean run'"), 0);
    assert_int_equal(status_of("show 2>&1 | grep -q 'inferflow info'"), 0);
    assert_int_equal(status_of("serve --tensor-parallel-size 2 2>&1 | grep -q 'cpu:1&cpu:1'"), 0);
    assert_int_equal(status_of("run -md x 2>&1 | grep -q -e '--draft'"), 0);
    assert_int_equal(status_of("serve --served-model-name x --help"), 0); /* help wins */
    assert_int_equal(status_of("serve --port x -h"), 0);
    /* one word too many is the model */
    assert_int_equal(status_of("run tests/vectors/models/llama --ids 5 -n 1 --output ids"), 0);
    assert_int_equal(status_of("info tests/vectors/models/llama | grep -q llama"), 0);
    assert_int_equal(status_of("eval logits tests/vectors/models/llama --ids 5 -o /dev/null"), 0);
    assert_int_equal(status_of("run nowhere --ids 5"), 1);
    assert_int_equal(status_of("run -m builtin tests/vectors/models/llama --ids 5"), 2);
    assert_int_equal(status_of("run a b"), 2);
    assert_int_equal(status_of("info --nonsense"), 2);
    assert_int_equal(status_of("info >/dev/full"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_of_every_shape),  cmocka_unit_test(wrong_flags_are_named),
        cmocka_unit_test(help_lists_every_row),  cmocka_unit_test(help_fits_the_screen_and_names_aliases),
        cmocka_unit_test(pages_name_every_flag), cmocka_unit_test(every_command_is_complete),
        cmocka_unit_test(ids_in_every_spelling), cmocka_unit_test(shells_complete_words),
        cmocka_unit_test(exit_statuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
