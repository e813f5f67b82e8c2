/* grammar_run.h - the automaton of a grammar at work: states, made when they are first reached, and kept.
 *
 * A configuration is a node that reads a byte and the stack of nodes to return to. Stacks are lists that share their
 * tails, and equal ones are one cell; so a configuration is a cell too, and a state, which is all configurations that
 * the same bytes lead to, is a sorted set of cells with a number. What a byte does to a state is remembered. When the
 * tables are full, all is forgotten but one state, and the epoch changes. */
#pragma once
#include "sample/grammar_nodes.h"

enum {
    RUN_CELLS = 1 << 16,
    RUN_STATES = 1 << 13,
    RUN_MEMBERS = 1 << 18,
    RUN_CONFIGS = 1 << 14, /* of one state */
    RUN_WAYS = 8,
    STATE_UNKNOWN = 0, /* also: the tables are full */
    STATE_DEAD = 1,    /* no text goes on like this */
    STATE_START = 2,
    CELL_DONE = 0 /* nothing is left to read: the text may end */
};

typedef struct grammar_cell {
    uint32_t node, below; /* below: another cell */
} grammar_cell;

/* Bytes that lead from a state to one other, `to`, whichever of them it is, by their buckets (token_trie.h). */
typedef struct grammar_pass {
    uint64_t buckets;
    uint32_t to; /* STATE_UNKNOWN: not computed yet */
} grammar_pass;

typedef struct grammar_state {
    uint32_t first, n; /* its cells: member[first] on */
} grammar_state;

typedef struct visit {
    uint32_t node, below, stamp;
} visit;

typedef struct grammar_run {
    const grammar_nodes *g;
    uint32_t epoch;
    grammar_cell *cell;
    uint32_t n_cell, *cell_slot; /* slots: hash tables of numbers, 0: empty */
    grammar_state *state;
    uint32_t n_state, *state_slot;
    uint32_t *member, n_member;
    uint32_t *go;       /* [RUN_STATES * n_class] the state after a byte */
    grammar_pass *pass; /* [RUN_STATES] */
    uint32_t stamp, n_visit, n_todo, n_found;
    visit *seen;     /* [2 * RUN_CONFIGS] of the state that is being made */
    visit *todo;     /* [RUN_CONFIGS] */
    uint32_t *found; /* [RUN_CONFIGS] */
    /* Of the state that was left last: which of its cells read a byte, a bit each, and where that leads; most bytes do
     * as others do. */
    uint32_t left, n_way;
    struct grammar_way {
        uint64_t cells;
        uint32_t to;
    } way[RUN_WAYS];
    grammar_cell *old;     /* [RUN_CELLS] of grammar_run_flush, as those that follow */
    uint32_t *kept, *path; /* [RUN_CONFIGS], [RUN_CELLS] */
} grammar_run;

int grammar_run_open(grammar_run *r, const grammar_nodes *g, err *e);
void grammar_run_close(grammar_run *r);

/* The state after a byte; STATE_UNKNOWN: the tables are full. */
uint32_t grammar_run_make(grammar_run *r, uint32_t state, uint8_t byte);
static inline uint32_t grammar_run_go(grammar_run *r, uint32_t state, uint8_t byte)
{
    const uint32_t to = r->go[(size_t)state * (size_t)r->g->n_class + r->g->class[byte]];
    return to ? to : grammar_run_make(r, state, byte);
}

/* Forgets all but `state`; gives its new number. */
uint32_t grammar_run_flush(grammar_run *r, uint32_t state);

/* What every byte of some buckets does alike; NULL: the tables are full. */
const grammar_pass *grammar_run_pass(grammar_run *r, uint32_t state);

static inline bool grammar_run_complete(const grammar_run *r, uint32_t state)
{
    return r->state[state].n && r->member[r->state[state].first] == CELL_DONE;
}
/* Nothing but the end may follow. */
static inline bool grammar_run_over(const grammar_run *r, uint32_t state)
{
    return r->state[state].n == 1 && grammar_run_complete(r, state);
}
