/* grammar_nodes.h - the automaton of a grammar as data: a network of nodes for each rule, as Thompson's construction
 * makes it, whose calls of other rules make it a pushdown automaton.
 *
 * It is checked when it is made: a rule that calls itself before it has read a byte (left recursion) is refused, as is
 * a grammar that derives no text. A node from which no end can be reached is not alive, and a walk never enters it: so
 * every text that the automaton accepts byte by byte can be completed. */
#pragma once
#include "sample/grammar_phrase.h"

typedef enum {
    NODE_END,   /* of its rule */
    NODE_SET,   /* reads a byte of set `arg`, then `next` */
    NODE_SPLIT, /* goes on at `next` and at `arg` */
    NODE_CALL,  /* rule `arg`, then `next` */
    NODE_DEAD   /* never */
} node_kind;

typedef struct grammar_node {
    uint8_t kind;
    bool alive; /* the end of its rule can be reached */
    bool empty; /* … without reading a byte */
    uint32_t next, arg;
} grammar_node;

typedef struct grammar_nodes {
    grammar_node *node; /* node 0 is the end of every rule */
    size_t n, cap;
    uint32_t *entry; /* [n_rule] first node of each rule */
    size_t n_rule;
    byte_set *set;
    size_t n_set, cap_set;
    uint32_t root;      /* first node of the root */
    uint8_t class[256]; /* bytes that all sets treat alike have one class */
    int n_class;
} grammar_nodes;

/* Makes the nodes of all rules, with `root` as the first. Takes its errors from, and gives them to, the builder. */
int grammar_nodes_make(grammar_nodes *out, grammar_builder *b, uint32_t root);
void grammar_nodes_free(grammar_nodes *g);
