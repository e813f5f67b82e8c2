/* cut.h - the pass that makes of a run of ops one program for each rank of a group: after the program is finished,
 * before it is lowered (core/lower_int8.h).
 *
 * A rank has windows on weights, its share of states and constants, and the ops on its columns. An op that needs
 * whole rows of a sharded tensor, or of one that other ranks have, has a COLL before it, in the same order on all
 * ranks. A tensor number of the uncut
 * program still means whole rows; a rank's slice is a new tensor. Nothing is summed across ranks, so every result has
 * the bits of the uncut program, for any number of ranks and any shares; unless the group reduces
 * (cut_shape.reduces): then partial sums of rows are, where that saves a gather (cut_sums.h). */
#pragma once
#include "plan/cut_borders.h"
#include "plan/cut_rules.h"

/* What a rank has of an activation. */
typedef struct cut_part {
    ref t;             /* in its program; 0: nothing */
    cut_range columns; /* of the whole that t has */
} cut_part;

/* What the ranks hand over at a COLL; the k-th of every rank's program is number k. */
typedef struct cut_coll {
    uint8_t how;         /* COLL_* */
    bool goes_on;        /* REDUCE: the result is not yet t, as more is added to it */
    ref t;               /* what is made whole, in the whole program */
    const cut_range *of; /* [ranks] GATHER: the columns that a rank gives; OWNER: the rows of the table that it has;
                            REDUCE: nothing */
    const bool *takes;   /* [ranks] whether a rank wants the result */
    int32_t offset;      /* OWNER: a token's row in the table is its id plus this */
} cut_coll;

typedef struct cut cut;

/* takes: what all devices of the group take for int8 (core/lower_int8.h), NULL: nothing. `s` is read until cut_close,
 * s->p as long as the programs live. */
int cut_open(cut **out, const cut_shape *s, bool (*takes)(dtype type), err *e);
void cut_close(cut *c); /* NULL ok; the programs too */

program *cut_program(const cut *c, int rank);
uint32_t cut_colls(const cut *c, const cut_coll **list);
/* Columns of an activation that a rank can give to others: of whole ones the first rank that has them, all. */
cut_part cut_gives(const cut *c, int rank, ref t);
