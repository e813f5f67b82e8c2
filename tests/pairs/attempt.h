/* attempt.h - one row of options, run: how it ended, and what it computed.
 *
 * An attempt ends well (0), or is refused (1 or 2 with one line that begins with "inferflow: error:", the last of
 * standard error), or is a fault: a signal, another status, no line, no end. */
#pragma once
#include "base/buf.h"
#include "tests/pairs/values.h"

#include <sys/types.h>

typedef enum { ATTEMPT_WELL, ATTEMPT_REFUSED, ATTEMPT_FAULT } attempt_end;

typedef struct attempt_outcome {
    attempt_end end;
    char why[700]; /* of a refusal its line; of a fault what happened */
    buf result;    /* of one that ended well: bytes that are equal where options keep bits; may be empty */
    bool partial;  /* not all of it is there: a full queue refused a request */
} attempt_outcome;

typedef struct attempt attempt;

struct attempt {
    const char *name, *without; /* "serve"; the group of options that is not for it, or NULL */
    const command *cmd;
    void (*run)(const attempt *t, const uint8_t *row, attempt_outcome *out);
    const value_world *w;
    const option *o;
    int n;
    double limit; /* seconds until a program hangs */
    double end;   /* clock_now when rows are no longer begun, or made smaller; INFINITY: never */
};

/* The value of an option in a row, as its words; NULL: it is not given, or there is no such option. */
char *const *attempt_given(const attempt *t, const uint8_t *row, const char *key);

/* ---- programs */

enum { ATTEMPT_ARGS_MAX = 256 };

typedef struct attempt_args {
    char *arg[ATTEMPT_ARGS_MAX]; /* the executable first, NULL last */
    int n;
    char made[8][300]; /* files that "%O" stands for */
    int n_made;
} attempt_args;

/* The executable and words that are split at blanks. */
void attempt_args_begin(attempt_args *a, const value_world *w, const char *words);
void attempt_args_add(attempt_args *a, const char *word);
/* The options of a row; `model_only`: those of every command that runs a model. "%O" becomes a new file's name. */
void attempt_args_row(attempt_args *a, const attempt *t, const uint8_t *row, bool model_only);
/* Unlinks what "%O" stood for and gives the words back. */
void attempt_args_end(attempt_args *a);

/* Starts a program whose two outputs go to files DIR/NAME.out and .err. -1: no. */
pid_t attempt_start(const attempt_args *a, const value_world *w, const char *name);
/* Waits for its end; a program that runs on is killed after `limit` seconds. */
void attempt_wait(pid_t pid, const attempt *t, const char *name, double limit, attempt_outcome *out);
/* What a program of this name printed so far. */
void attempt_printed(buf *out, const value_world *w, const char *name, const char *end);
