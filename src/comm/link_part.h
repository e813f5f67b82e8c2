/* link_part.h - some ranks of a link, one after another, as a link of their own. */
#pragma once
#include "core/link.h"

typedef struct link_part {
    link_end base; /* first */
    link_end *of;
    int rank0;
} link_part;

/* The end of rank of->rank, in the part that begins with rank0. */
void link_part_open(link_part *l, link_end *of, int rank0, int ranks);
