/* cut_borders.h - where the columns of each activation are cut, if they are.
 *
 * Activations that ops take column by column from one another are cut alike: they form a class. A class has borders
 * where everything allows one: between heads, at whole panels of a file, at the same share of every row. Keys and
 * values are cut by the queries that read them: ranks whose queries share a key/value head both have it. In a group
 * that reduces, borders are wished for where the matrices that read a class may be cut by columns, unless that gives a
 * rank more than 1.2 times its share, or another one nothing.
 *
 * Experts may have shares of their own: then what is done for expert rows, their sum included, is cut by these, and
 * classes end where it begins and ends. A rank with a share of 0 has nothing of the one kind or the other, and ops are
 * done by the ranks that have some; the router's matrix, which is short, by those that have experts. */
#pragma once
#include "core/backend.h"
#include "plan/cut_rules.h"

typedef struct cut_shape {
    const program *p;
    uint32_t op0, op1;
    int ranks;
    const double *share;   /* [ranks] 0: nothing but of experts */
    const double *experts; /* [ranks] of what is done for expert rows; NULL: as of all */
    bool reduces;          /* partial sums may be summed over the ranks (cut_sums.h); not with `experts` */
    bool whole_experts;    /* with it: each expert is on one rank (cut_experts.h) */
} cut_shape;

typedef struct cut_borders cut_borders;

int cut_borders_open(cut_borders **out, const cut_shape *s, err *e);
void cut_borders_close(cut_borders *b); /* NULL ok */

/* Whether ranks may have parts of t; false: it cannot be cut, or is not worth it. */
bool cut_is_cut(const cut_borders *b, ref t);
/* Whether t and u are cut alike. */
bool cut_one_class(const cut_borders *b, ref t, ref u);
/* Whether what is done for t is cut by the shares of experts. */
bool cut_by_experts(const cut_borders *b, ref t);
/* Ranks, as bits, that compute t where they do not compute columns of it (0: the caller of an op without a result);
 * that have an op which reads it. */
uint64_t cut_doers(const cut_borders *b, ref t);
uint64_t cut_readers(const cut_borders *b, ref t);
/* The columns of t that a rank has where it has a part. They cover t and ascend by rank; of keys and values, and what
 * they are made of, they may overlap. */
cut_range cut_columns(const cut_borders *b, int rank, ref t);
/* The key/value heads of a state that a rank's queries read; queries that read the state, 0: there are none. */
cut_range cut_state_heads(const cut_borders *b, int rank, int of);
ref cut_queries(const cut_borders *b, int of);
/* The experts of n that a rank has where they are whole. */
cut_range cut_experts(const cut_borders *b, int rank, int64_t n);
/* The rows of a token table that a rank has. */
cut_range cut_table_rows(const cut_borders *b, int rank, const op *embed);
