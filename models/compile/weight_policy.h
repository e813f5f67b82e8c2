/* weight_policy.h - which type each matrix of a model is held in, or written in by `quantize`.
 *
 * A policy has a type for matrices, for the output head and for the token table, and rules over them:
 *
 *     # PATTERN = TYPE, the last line that fits wins
 *     *.attn.v       = q6_b64
 *     dec.0.*        = q8_0
 *     head           = keep
 *
 * A pattern ('*' is any run of characters) is compared with the weight's name as `plan --dump` prints it
 * ("dec.3.attn.v"), with its part after the first dot ("3.attn.v", "head", "token"), and with the name of its
 * tensor in the checkpoint. "embed" is the token table, "head" also a token table that is the head. TYPE is a type's
 * name or `keep`: as in the file. Vectors, tables of positions, and the matrices by which experts are chosen, always
 * stay as they are. */
#pragma once
#include "base/arena.h"
#include "base/err.h"
#include "base/span.h"
#include "tensor/dtype.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct weight_rule {
    const char *pattern, *where; /* where: "policy.txt:3" */
    dtype type;                  /* DTYPE_NONE: keep */
    bool fitted, used;           /* a weight matched the pattern; the rule decided at least one */
} weight_rule;

typedef struct weight_policy {
    dtype body, head, table; /* DTYPE_NONE: as in the file */
    weight_rule *rules;
    size_t n, cap;
    arena mem;
} weight_policy;

/* The type called `name`, in either case, or by its short name in the original Inferflow ("q4"); only types that can be
 * encoded. `where` starts the message, which names them all: "--weights". */
int weight_type(const char *name, const char *where, dtype *out, err *e);

/* Appends the rules of a policy file; `what` names it. */
int policy_read(weight_policy *p, span text, const char *what, err *e);
void policy_free(weight_policy *p);

/* The names of a weight. */
typedef struct weight_names {
    const char *name, *tensor; /* "dec.3.attn.v"; in the checkpoint */
    bool table;                /* the token table */
    bool tied;                 /* and it is the head too */
} weight_names;
/* The type for a matrix; rules that decide are marked as used. DTYPE_NONE: as in the file. */
dtype policy_type(weight_policy *p, const weight_names *w);

/* An error names the first rule that fits no matrix; rules that never decide are named in the log. */
int policy_check_used(const weight_policy *p, err *e);
