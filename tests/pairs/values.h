/* values.h - which values of an option are tried together with those of others.
 *
 * They follow from the option's row: the words of a PARAM_WORD, true, the ends of a range and what lies between. Texts,
 * and numbers whose ends cost only time, have rows of their own in values.c; an option that has none there is tried
 * with words that no option takes, and is so in the check from its first day. */
#pragma once
#include "app/app.h"
#include "tests/pairs/cover.h"

#include <stdbool.h>

/* What values name: files and a node that the check made, in the folder `dir`. */
typedef struct value_world {
    const char *binary;  /* the executable */
    const char *dir;     /* "%T" */
    const char *vectors; /* "%V": tests/vectors */
    const char *node;    /* "%N": HOST:PORT of a node, whose key is %T/key */
} value_world;

enum { VALUE_WORDS_MAX = 8 };

typedef struct option {
    const param *row;
    bool of_model;                                 /* of every command that runs a model: replay has it too */
    int n_values;                                  /* "not given", which is value 0, included */
    char *word[COVER_VALUES_MAX][VALUE_WORDS_MAX]; /* a value's words of the command line, NULL after the last */
} option;

/* The options of a command, those of the group `without` (NULL: none) left out; how many there are. */
int options_of(option *out, int max, const command *cmd, const char *without, const value_world *w);
/* Words that are wrong or at the edge, for option `o` alone; NULL after the last. */
const char *const *option_edges(const option *o);
