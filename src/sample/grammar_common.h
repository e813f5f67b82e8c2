/* grammar_common.h - the texts that two networks of nodes have in common, as a network: a walk through both at once.
 *
 * A node of it stands for a pair of theirs. Where either may go on without reading, so does the pair; where both read a
 * byte, the pair reads what both sets hold. This is the product of two nondeterministic automata, which needs neither
 * to be made deterministic; only pairs that a walk reaches are made. */
#pragma once
#include "sample/grammar_nodes.h"

typedef struct common_node {
    uint32_t a, b;      /* a node of each network */
    node_kind kind;     /* NODE_END, NODE_SET, NODE_SPLIT or NODE_DEAD */
    uint32_t next, arg; /* as in a grammar_node, but numbers of common nodes */
    byte_set set;
    bool alive; /* an end can be reached */
} common_node;

typedef struct common_nodes {
    common_node *node; /* [n]; the first is where a walk begins */
    size_t n, cap;
    uint32_t *slot; /* [slots] number of a common node + 1, by its pair */
    size_t slots;
} common_nodes;

/* Walks from the nodes a and b of g, which call no rules. Errors are given to the builder: ERR_LIMIT, ERR_MEMORY. */
int common_nodes_make(common_nodes *out, grammar_builder *by, const grammar_nodes *g, uint32_t a, uint32_t b);
void common_nodes_free(common_nodes *c);
