/* attempt.c - programs of attempts; see attempt.h. */
#define _GNU_SOURCE
#include "tests/pairs/attempt.h"

#include "base/clock.h"
#include "base/file.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

char *const *attempt_given(const attempt *t, const uint8_t *row, const char *key)
{
    for (int i = 0; i < t->n; i++)
        if (row[i] && strcmp(t->o[i].row->key, key) == 0) return t->o[i].word[row[i]];
    return NULL;
}

void attempt_args_add(attempt_args *a, const char *word)
{
    if (a->n + 1 >= ATTEMPT_ARGS_MAX || !(a->arg[a->n++] = strdup(word))) abort();
    a->arg[a->n] = NULL;
}

void attempt_args_begin(attempt_args *a, const value_world *w, const char *words)
{
    char all[2000], *rest;
    *a = (attempt_args){0};
    attempt_args_add(a, w->binary);
    snprintf(all, sizeof all, "%s", words);
    for (char *word = strtok_r(all, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) attempt_args_add(a, word);
}

/* "--receipt=%O": a name that no file has yet. */
static void add_output(attempt_args *a, const value_world *w, const char *word, size_t n)
{
    static int made;
    char *to = a->made[a->n_made], whole[400];
    if (a->n_made + 1 >= (int)(sizeof a->made / sizeof *a->made)) abort();
    snprintf(to, sizeof a->made[0], "%s/made-%d-%d", w->dir, (int)getpid(), made++);
    snprintf(whole, sizeof whole, "%.*s%s", (int)n, word, to);
    a->n_made++;
    attempt_args_add(a, whole);
}

void attempt_args_row(attempt_args *a, const attempt *t, const uint8_t *row, bool model_only)
{
    for (int i = 0; i < t->n; i++) {
        if (!row[i] || (model_only && !t->o[i].of_model)) continue;
        for (char *const *word = t->o[i].word[row[i]]; *word; word++) {
            const char *out = strstr(*word, "%O");
            if (out) add_output(a, t->w, *word, (size_t)(out - *word));
            else attempt_args_add(a, *word);
        }
    }
}

void attempt_args_end(attempt_args *a)
{
    for (int i = 0; i < a->n; i++) free(a->arg[i]);
    for (int i = 0; i < a->n_made; i++) unlink(a->made[i]);
    *a = (attempt_args){0};
}

static void file_of(char path[400], const value_world *w, const char *name, const char *end)
{
    snprintf(path, 400, "%s/%s-%d.%s", w->dir, name, (int)getpid(), end);
}

pid_t attempt_start(const attempt_args *a, const value_world *w, const char *name)
{
    char out[400], errors[400];
    file_of(out, w, name, "out");
    file_of(errors, w, name, "err");
    fflush(NULL);
    unlink(out); /* what the last program of this name printed */
    unlink(errors);
    pid_t pid = fork();
    if (pid) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int in = open("/dev/null", O_RDONLY), o = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600),
        e = open(errors, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (in < 0 || o < 0 || e < 0 || dup2(in, 0) < 0 || dup2(o, 1) < 0 || dup2(e, 2) < 0) _exit(126);
    close_range(3, ~0u, 0);
    setenv("HOME", w->dir, 1);
    execv(a->arg[0], a->arg);
    _exit(127);
}

void attempt_printed(buf *out, const value_world *w, const char *name, const char *end)
{
    char path[400];
    file_of(path, w, name, end);
    out->n = 0;
    file_read(out, path, 64 << 20, NULL);
}

/* The one line of a refusal, or what is wrong with it. */
static void judge_refusal(attempt_outcome *out, int status, const char *errors)
{
    static const char begin[] = "inferflow: error: ";
    const char *last = errors + strlen(errors);
    int lines = 0;
    for (const char *at = errors; (at = strstr(at, begin)); at++) lines += at == errors || at[-1] == '\n';
    if (last > errors && last[-1] == '\n') last--;
    while (last > errors && last[-1] != '\n') last--;
    out->end = ATTEMPT_REFUSED;
    snprintf(out->why, sizeof out->why, "%.*s", (int)strcspn(last, "\n"), last);
    if (lines == 1 && strncmp(last, begin, sizeof begin - 1) == 0 && strlen(out->why) > sizeof begin) return;
    out->end = ATTEMPT_FAULT;
    snprintf(out->why, sizeof out->why, "status %d with %d lines of error, standard error ends: %.300s", status, lines,
             last);
}

void attempt_wait(pid_t pid, const attempt *t, const char *name, double limit, attempt_outcome *out)
{
    double end = clock_now() + limit;
    int status = 0;
    pid_t got;
    buf errors = {0};
    while ((got = waitpid(pid, &status, WNOHANG)) == 0 && clock_now() < end) usleep(1000);
    bool hung = got == 0;
    if (hung) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
    }
    attempt_printed(&errors, t->w, name, "err");
    out->end = ATTEMPT_FAULT;
    if (hung) {
        snprintf(out->why, sizeof out->why, "no end after %.0f s", limit);
    } else if (!WIFEXITED(status)) {
        snprintf(out->why, sizeof out->why, "signal %d: %.500s", WTERMSIG(status), buf_cstr(&errors));
    } else if (WEXITSTATUS(status) == 0) {
        out->end = ATTEMPT_WELL;
        *out->why = 0;
    } else if (WEXITSTATUS(status) > 2) {
        snprintf(out->why, sizeof out->why, "status %d: %.500s", WEXITSTATUS(status), buf_cstr(&errors));
    } else {
        judge_refusal(out, WEXITSTATUS(status), buf_cstr(&errors));
    }
    buf_free(&errors);
}
