/* link_threads.h - the link between threads of one process: a rank reads where another one wrote. */
#pragma once
#include "base/signal_word.h"
#include "core/link.h"

typedef struct link_group link_group;

/* The ends of a group of 1 to LINK_RANKS_MAX ranks, with channels 0 … channels - 1 between any two. */
int link_threads_open(link_group **out, int ranks, int channels, err *e);
link_end *link_threads_end(link_group *g, int rank);
/* Moves when `wait` of this end has to look again: for links that reach other ranks in another way. */
signal_word *link_threads_word(link_group *g, int rank);
void link_threads_close(link_group *g); /* NULL ok */
