/* pairs.c - every two values of two options together.
 *
 * usage: pairs [--seconds S] [run|serve|eval|bench|node ...]; from the top of the tree, with INFERFLOW_BIN. The options
 * are those of the commands' own tables (values.h), the rows those of cover.h, the runs those of attempt.h. A row that
 * ends well must have computed what the same row computes without the options that keep bits (base/param.h). A row that
 * is refused is made smaller until what is left is refused for itself; so is one with a fault, before it is shown. With
 * --seconds, commands share that time, two at once, and what was not tried is told. Exit status: 1 where there was a
 * fault. */
#define _GNU_SOURCE
#include "tests/pairs/attempt_command.h"
#include "tests/pairs/attempt_server.h"

#include "base/clock.h"
#include "base/file.h"

#include <ctype.h>
#include <ftw.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a row is made smaller for. */
typedef bool row_test(const attempt *t, const uint8_t *row, attempt_outcome *out);

static void outcome_free(attempt_outcome *out)
{
    buf_free(&out->result);
    *out = (attempt_outcome){0};
}

static bool is_refused(const attempt *t, const uint8_t *row, attempt_outcome *out)
{
    t->run(t, row, out);
    return out->end == ATTEMPT_REFUSED;
}

static bool is_fault(const attempt *t, const uint8_t *row, attempt_outcome *out)
{
    t->run(t, row, out);
    return out->end == ATTEMPT_FAULT;
}

/* Whether others may change a text beside this value of an option. */
static bool is_loose_value(const option *o, int value)
{
    static const char *const exact[][2] = {{"exact", "--exact=on"},
                                           {"reduce", "--reduce=exact"},
                                           {"wire", "--wire=f32"},
                                           {"draft_accept", "--draft-accept=same"}};
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        if (value && strcmp(o->row->key, exact[i][0]) == 0) return strcmp(o->word[value][0], exact[i][1]) != 0;
    return false;
}

static bool is_loose(const attempt *t, const uint8_t *row)
{
    bool loose = false;
    for (int i = 0; i < t->n; i++) loose = loose || is_loose_value(&t->o[i], row[i]);
    return loose;
}

/* Values beside which nothing can be compared are left to a second round: they are in nearly every row. */
static void each_loose_value(cover *c, const attempt *t, bool wanted)
{
    for (int i = 0; i < t->n; i++)
        for (int v = 1; v < t->o[i].n_values; v++) {
            const cover_pick pick = {i, v};
            if (!is_loose_value(&t->o[i], v)) continue;
            if (wanted) cover_allow(c, pick);
            else if (!cover_refuse(c, &pick, 1)) abort();
        }
}

/* Whether a row that ends well computes other bytes than without the options that keep bits. */
static bool is_other(const attempt *t, const uint8_t *row, attempt_outcome *out)
{
    uint8_t plain[COVER_OPTIONS_MAX];
    bool kept = false, other = false;
    attempt_outcome without = {0};
    for (int i = 0; i < t->n; i++) {
        plain[i] = t->o[i].row->keeps_bits ? 0 : row[i];
        kept |= plain[i] != row[i];
    }
    t->run(t, row, out);
    if (out->end != ATTEMPT_WELL || !kept || out->partial || is_loose(t, row)) return false;
    t->run(t, plain, &without);
    if (without.end == ATTEMPT_WELL && !without.partial)
        other = without.result.n != out->result.n ||
                (out->result.n && memcmp(without.result.p, out->result.p, out->result.n) != 0);
    if (other)
        snprintf(out->why, sizeof out->why, "computes %.200s, not %.200s", buf_cstr(&out->result),
                 buf_cstr(&without.result));
    outcome_free(&without);
    return other;
}

/* Leaves options out as long as the test holds; how many are left. */
static int shrink(const attempt *t, uint8_t *row, row_test *holds)
{
    int left = 0;
    for (int i = 0; i < t->n; i++) left += row[i] != 0;
    for (int size = (left + 1) / 2; size > 0; size = size == 1 ? 0 : (size + 1) / 2)
        for (int from = 0; from < t->n && clock_now() < t->end;) {
            uint8_t less[COVER_OPTIONS_MAX];
            int taken = 0, i = from;
            memcpy(less, row, (size_t)t->n);
            for (; i < t->n && taken < size; i++)
                if (less[i]) {
                    less[i] = 0;
                    taken++;
                }
            attempt_outcome out = {0};
            if (taken && holds(t, less, &out)) {
                memcpy(row, less, (size_t)t->n);
                left -= taken;
            }
            outcome_free(&out);
            from = i;
        }
    return left;
}

static void show(const attempt *t, const uint8_t *row, const char *why)
{
    printf("FAULT %s", t->name);
    for (int i = 0; i < t->n; i++)
        if (row[i])
            for (char *const *word = t->o[i].word[row[i]]; *word; word++) printf(" '%s'", *word);
    printf("\n      %s\n", why);
    fflush(stdout);
}

static void show_smallest(const attempt *t, uint8_t *row, row_test *holds, const char *why)
{
    attempt_outcome out = {0};
    shrink(t, row, holds);
    holds(t, row, &out);
    show(t, row, *out.why ? out.why : why);
    outcome_free(&out);
}

/* Leaves only the options whose flags a refusal names, if these are refused for themselves. */
static void keep_named(const attempt *t, uint8_t *row, const char *why)
{
    uint8_t named[COVER_OPTIONS_MAX] = {0};
    attempt_outcome out = {0};
    bool any = false;
    for (int i = 0; i < t->n; i++) {
        char flag[84] = "--";
        param_spell(t->o[i].row->key, flag + 2);
        const char *at = row[i] ? strstr(why, flag) : NULL;
        if (!at || at[strlen(flag)] == '-' || isalpha((unsigned char)at[strlen(flag)])) continue;
        named[i] = row[i];
        any = true;
    }
    if (any && is_refused(t, named, &out)) memcpy(row, named, (size_t)t->n);
    outcome_free(&out);
}

/* Learns why a row is refused, and takes one option out of it that was not asked for. false: only those are left. */
static bool learn(cover *c, const attempt *t, uint8_t *row, const cover_pick pair[2], const char *why)
{
    uint8_t least[COVER_OPTIONS_MAX];
    cover_pick pick[COVER_REFUSAL_MAX];
    int n = 0, drop = -1;
    memcpy(least, row, (size_t)t->n);
    keep_named(t, least, why);
    if (!shrink(t, least, is_refused)) {
        show(t, least, "is refused without any option");
        exit(1);
    }
    if (clock_now() >= t->end) return false; /* it may not be the least */
    for (int i = 0; i < t->n; i++) {
        if (!least[i]) continue;
        if (n < COVER_REFUSAL_MAX) pick[n] = (cover_pick){i, least[i]};
        n++;
        if (i != pair[0].option && i != pair[1].option) drop = i;
    }
    if (n <= COVER_REFUSAL_MAX && !cover_refuse(c, pick, n)) abort();
    if (drop >= 0) row[drop] = 0;
    return drop >= 0;
}

/* Runs one row until it ends well or only its pair is left to blame. Faults are shown; how many. */
static int try_row(cover *c, const attempt *t, uint8_t *row, const cover_pick pair[2])
{
    for (;;) {
        attempt_outcome out = {0};
        bool other = is_other(t, row, &out);
        attempt_end end = out.end;
        char why[sizeof out.why];
        memcpy(why, out.why, sizeof why);
        outcome_free(&out);
        if (end == ATTEMPT_REFUSED) {
            if (learn(c, t, row, pair, why)) continue;
            return 0;
        }
        cover_meet(c, row);
        if (end == ATTEMPT_WELL && !other) return 0;
        show_smallest(t, row, other ? is_other : is_fault, why);
        return 1;
    }
}

/* Each option alone with words at the edge. */
static int try_edges(const attempt *t)
{
    int faults = 0;
    for (int i = 0; i < t->n; i++) {
        option edge = t->o[i];
        char flag[80], word[400];
        param_spell(edge.row->key, flag);
        for (const char *const *text = option_edges(&edge); *text; text++) {
            const uint8_t row[1] = {1};
            attempt one = *t;
            attempt_outcome out = {0};
            snprintf(word, sizeof word, "--%s=%s", flag, *text);
            edge.word[1][0] = word;
            edge.word[1][1] = NULL;
            one.o = &edge;
            one.n = 1;
            if (is_fault(&one, row, &out)) {
                show(&one, row, out.why);
                faults++;
            }
            outcome_free(&out);
        }
    }
    return faults;
}

static void show_progress(const attempt *t, const cover *c, int rows, int faults)
{
    int64_t met, all;
    cover_count(c, &met, &all);
    printf("pairs %s: %d options, %d rows, %lld of %lld pairs met, %d refusals learned, %d faults\n", t->name, t->n,
           rows, (long long)met, (long long)all, c->n_refusals, faults);
    fflush(stdout);
}

/* Rows until all pairs have met, or until `end` (clock_now). How many faults. */
static int try_rows(cover *c, attempt *t, double end)
{
    t->end = end;
    int rows = 0, faults = 0;
    uint8_t row[COVER_OPTIONS_MAX];
    cover_pick pair[2];
    double told = clock_now();
    while (clock_now() < end && cover_next(c, row, pair)) {
        faults += try_row(c, t, row, pair);
        rows++;
        if (clock_now() - told < 60) continue;
        told = clock_now();
        show_progress(t, c, rows, faults);
    }
    show_progress(t, c, rows, faults);
    return faults;
}

/* All pairs of a command, or as many as the seconds allow (0: all). How many faults. */
static int try_command(attempt *t, double seconds)
{
    int n_values[COVER_OPTIONS_MAX], faults;
    cover c;
    const double begun = clock_now();
    for (int i = 0; i < t->n; i++) n_values[i] = t->o[i].n_values;
    if (!cover_open(&c, t->n, n_values)) abort();
    faults = seconds > 0 ? 0 : try_edges(t);
    each_loose_value(&c, t, false);
    faults += try_rows(&c, t, seconds > 0 ? begun + 0.7 * seconds : INFINITY);
    each_loose_value(&c, t, true);
    faults += try_rows(&c, t, seconds > 0 ? begun + seconds : INFINITY);
    cover_close(&c);
    return faults;
}

/* ---- what values name */

static int remove_entry(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)s, (void)kind, (void)at;
    return remove(path);
}

static void write_text(const value_world *w, const char *name, const char *text)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", w->dir, name);
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f)) abort();
}

/* Runs one line of a shell, with $P the executable and $T the folder. */
static void prepare(const value_world *w, const char *line)
{
    char all[6000];
    snprintf(all, sizeof all, "P='%s' T='%s'; %s >/dev/null", w->binary, w->dir, line);
    if (system(all)) {
        fprintf(stderr, "pairs: this failed: %s\n", all);
        exit(1);
    }
}

static void world_fill(value_world *w)
{
    write_text(w, "text", "Once upon a time");
    write_text(w, "ids", "5,6,7");
    write_text(w, "over.ini", "[runtime]\nchunk = 5\n\n[generate]\ntop_k = 40\n");
    write_text(w, "words.gbnf", "root ::= \"a\" | \"be\" root\n");
    write_text(w, "schema.json", "{\"type\": \"integer\"}");
    write_text(w, "chat.jinja", "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:");
    write_text(w, "api", "secret-of-this-check\n");
    prepare(w, "chmod 600 \"$T/api\" && mkdir \"$T/pages\" \"$T/weights\" && $P node --new-key \"$T/key\"");
    prepare(w, "$P quantize --log-level error --bits 4 -o \"$T/packed.safetensors\"");
    prepare(w, "$P export --log-level error -o \"$T/folder\"");
    prepare(w, "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost -days 9 "
               "-keyout \"$T/cert.key\" -out \"$T/cert.pem\" 2>/dev/null");
}

/* Starts a node that rows name as "%N". */
static pid_t world_node(value_world *w)
{
    static char at[100];
    static option none;
    const attempt t = {.name = "world", .w = w, .o = &none, .limit = 60};
    attempt_args a;
    char key[400];
    buf printed = {0};
    snprintf(key, sizeof key, "--key-file=%s/key", w->dir);
    attempt_args_begin(&a, w, "node --listen=127.0.0.1:0");
    attempt_args_add(&a, key);
    pid_t pid = attempt_start(&a, w, t.name);
    const char *from = NULL;
    for (double end = clock_now() + t.limit; !from && clock_now() < end; usleep(2000)) {
        attempt_printed(&printed, w, t.name, "out");
        from = strstr(buf_cstr(&printed), "127.0.0.1:");
    }
    if (!from) abort();
    snprintf(at, sizeof at, "%.*s", (int)strcspn(from, " ,\n"), from);
    w->node = at;
    attempt_args_end(&a);
    buf_free(&printed);
    return pid;
}

/* Commands with their share of a process's time. */
static const struct {
    const char *name, *command, *without;
    void (*run)(const attempt *t, const uint8_t *row, attempt_outcome *out);
    int process;
    double share;
} kinds[] = {
    {"run", "run", NULL, attempt_run, 0, 0.8},        {"bench", "bench", "bench allreduce", attempt_bench, 0, 0.2},
    {"serve", "serve", NULL, attempt_serve, 1, 0.65}, {"eval", "eval", NULL, attempt_logits, 1, 0.2},
    {"node", "node", NULL, attempt_node, 1, 0.15},
};
enum { KINDS = sizeof kinds / sizeof *kinds, PROCESSES = 2 };

static const command *command_of(const char *name)
{
    for (const command *const *c = command_all; *c; c++)
        if (strcmp((*c)->name, name) == 0) return *c;
    abort();
}

/* The commands of one process that are asked for (none: all). */
static int try_kinds(int process, double seconds, const value_world *w, char **asked)
{
    static option o[COVER_OPTIONS_MAX];
    int faults = 0;
    for (int i = 0; i < KINDS; i++) {
        bool wanted = !*asked;
        for (char **a = asked; *a; a++) wanted |= strcmp(*a, kinds[i].name) == 0;
        if (!wanted || kinds[i].process != process) continue;
        attempt t = {.name = kinds[i].name,
                     .cmd = command_of(kinds[i].command),
                     .run = kinds[i].run,
                     .w = w,
                     .o = o,
                     .limit = 90};
        t.n = options_of(o, COVER_OPTIONS_MAX, t.cmd, kinds[i].without, w);
        faults += try_command(&t, seconds * (*asked ? 1 : kinds[i].share));
    }
    return faults;
}

int main(int argc, char **argv)
{
    char dir[] = "/tmp/inferflow-pairs-XXXXXX", vectors[4096], binary[4096];
    const char *given = getenv("INFERFLOW_BIN");
    value_world w = {.dir = dir, .vectors = vectors, .binary = binary};
    double seconds = 0;
    pid_t child[PROCESSES];
    int faults = 0, status;
    argv++;
    if (argc > 2 && strcmp(*argv, "--seconds") == 0) {
        seconds = atof(argv[1]);
        argv += 2;
    }
    if (!realpath("tests/vectors", vectors) || !realpath(given ? given : "build/inferflow", binary) || !mkdtemp(dir) ||
        chdir(dir)) /* words that are no paths become files there */
        return perror("pairs"), 1;
    world_fill(&w);
    pid_t node = world_node(&w);
    for (int p = 0; p < PROCESSES; p++)
        if ((child[p] = fork()) == 0) prctl(PR_SET_PDEATHSIG, SIGKILL), exit(try_kinds(p, seconds, &w, argv) != 0);
    for (int p = 0; p < PROCESSES; p++) faults += waitpid(child[p], &status, 0) < 0 || status;
    kill(node, SIGKILL);
    waitpid(node, NULL, 0);
    nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    printf("pairs: %s\n", faults ? "faults, see above" : "every row ended as it should");
    return faults != 0;
}
