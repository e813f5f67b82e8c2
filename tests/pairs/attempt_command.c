/* attempt_command.c - rows of commands that end by themselves: run, eval logits, bench. */
#define _GNU_SOURCE
#include "tests/pairs/attempt_command.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void add_unless(attempt_args *a, const attempt *t, const uint8_t *row, const char *key, const char *word)
{
    if (!attempt_given(t, row, key)) attempt_args_add(a, word);
}

static void args_of(attempt_args *a, const attempt *t, const uint8_t *row, const char *words)
{
    attempt_args_begin(a, t->w, words);
    add_unless(a, t, row, "log_level", "--log-level=error");
    attempt_args_row(a, t, row, false);
}

static void end_of(const attempt *t, attempt_args *a, attempt_outcome *out)
{
    attempt_wait(attempt_start(a, t->w, t->name), t, t->name, t->limit, out);
    if (out->end == ATTEMPT_WELL) attempt_printed(&out->result, t->w, t->name, "out");
}

/* Speeds in a JSON object become nothing. */
static void drop_speed(buf *b)
{
    static const char key[] = "\"tokens_per_s\":";
    char *at = b->n ? memmem(b->p, b->n, key, sizeof key - 1) : NULL;
    if (!at) return;
    char *from = at + sizeof key - 1, *to = from + strspn(from, "0123456789.eE+-");
    memmove(from, to, (size_t)((char *)b->p + b->n - to));
    b->n -= (size_t)(to - from);
}

/* What differs from the first time is a fault. */
static void again(const attempt *t, attempt_args *a, attempt_outcome *out, const char *what)
{
    attempt_outcome second = {0};
    end_of(t, a, &second);
    drop_speed(&second.result);
    bool same = second.end == ATTEMPT_WELL && second.result.n == out->result.n &&
                memcmp(second.result.p ? second.result.p : (uint8_t *)"", out->result.p ? out->result.p : (uint8_t *)"",
                       out->result.n) == 0;
    if (!same) {
        out->end = ATTEMPT_FAULT;
        snprintf(out->why, sizeof out->why, "%s: %.500s", what, *second.why ? second.why : "another text");
    }
    buf_free(&second.result);
}

/* The receipt of a text proves it. */
static void replay(const attempt *t, const uint8_t *row, const char *file, attempt_outcome *out)
{
    attempt_args a;
    attempt_outcome proof = {0};
    attempt_args_begin(&a, t->w, "replay --log-level=error");
    attempt_args_add(&a, file);
    attempt_args_row(&a, t, row, true);
    end_of(t, &a, &proof);
    if (proof.end != ATTEMPT_WELL) {
        out->end = ATTEMPT_FAULT;
        snprintf(out->why, sizeof out->why, "replay: %.600s", proof.why);
    }
    attempt_args_end(&a);
    buf_free(&proof.result);
}

/* The word behind a flag and its '='; NULL: it is not given. */
static const char *word_of(const attempt_args *a, const char *flag)
{
    for (int i = 0; i < a->n; i++)
        if (strncmp(a->arg[i], flag, strlen(flag)) == 0) return a->arg[i] + strlen(flag);
    return NULL;
}

void attempt_run(const attempt *t, const uint8_t *row, attempt_outcome *out)
{
    attempt_args a;
    args_of(&a, t, row, "run");
    if (!attempt_given(t, row, "prompt") && !attempt_given(t, row, "file"))
        add_unless(&a, t, row, "ids", "--ids=5,6,7,8");
    if (!attempt_given(t, row, "json")) add_unless(&a, t, row, "output", "--output=ids");
    add_unless(&a, t, row, "max_tokens", "--max-tokens=5");
    add_unless(&a, t, row, "seed", "--seed=7");
    end_of(t, &a, out);
    drop_speed(&out->result);
    const char *receipt = word_of(&a, "--receipt=");
    if (out->end == ATTEMPT_WELL && word_of(&a, "--session=")) again(t, &a, out, "the second time with its session");
    /* the layout that --peers measures may be another one each time, and rounded sums with it */
    if (attempt_given(t, row, "peers") && (attempt_given(t, row, "wire") || attempt_given(t, row, "reduce")))
        receipt = NULL;
    if (out->end == ATTEMPT_WELL && receipt && strncmp(receipt, t->w->dir, strlen(t->w->dir)) == 0)
        replay(t, row, receipt, out);
    attempt_args_end(&a);
}

void attempt_logits(const attempt *t, const uint8_t *row, attempt_outcome *out)
{
    attempt_args a;
    args_of(&a, t, row, "eval logits");
    if (!attempt_given(t, row, "prompt") && !attempt_given(t, row, "file"))
        add_unless(&a, t, row, "ids", "--ids=5,6,7,8");
    char output[400];
    snprintf(output, sizeof output, "--output=%s/logits-%d", t->w->dir, (int)getpid());
    add_unless(&a, t, row, "output", output);
    end_of(t, &a, out);
    out->result.n = 0;
    if (out->end == ATTEMPT_WELL && file_read(&out->result, word_of(&a, "--output="), 64 << 20, NULL)) {
        out->end = ATTEMPT_FAULT;
        snprintf(out->why, sizeof out->why, "status 0, and no output");
    }
    unlink(output + sizeof "--output=" - 1);
    attempt_args_end(&a);
}

void attempt_bench(const attempt *t, const uint8_t *row, attempt_outcome *out)
{
    attempt_args a;
    args_of(&a, t, row, "bench");
    add_unless(&a, t, row, "prompt", "--prompt=8");
    add_unless(&a, t, row, "generate", "--generate=2");
    add_unless(&a, t, row, "reps", "--reps=1");
    end_of(t, &a, out);
    out->result.n = 0; /* times */
    attempt_args_end(&a);
}
