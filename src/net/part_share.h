/* part_share.h - parts that several leaders have: who asks for one that another has, or is just opening, gets that. So
 * its weights lie in memory once, count once in what the node lends, and have one set of threads that compute with
 * them. It is the same part where program, contents, cut, rank and device are, and what changes how these are computed
 * with (the key). Whoever leaves last closes it. */
#pragma once
#include "net/part.h"

/* Those of a node. */
typedef struct part_table {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    part *first;
} part_table;

void parts_open(part_table *all);
void parts_close(part_table *all); /* when all were given back */
int parts_count(part_table *all);  /* that others may share */
/* While a rank waits for who opens its part: how far that one is. */
void parts_add_progress(part_table *all, const hosted_rank *by, progress *to);

/* Waits for who opens the same one; ends when the rank that asks is over. */
int part_take(part **out, const part_ask *a, err *e);
void part_give_back(part *x); /* after plans with its weights were closed; NULL ok */
/* Its files are not what they were: nobody else gets it. */
void part_forget(part *x);
