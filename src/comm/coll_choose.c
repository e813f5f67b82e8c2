/* coll_choose.c - see coll_choose.h. */
#include "comm/coll_choose.h"
#include "comm/coll_list.h"
#include "comm/coll_reduce.h"

#include <string.h>

const coll_kind *coll_reduction(const char *name)
{
    static const coll_kind *const all[] = {COLL_LIST};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->reduces && !strcmp(all[i]->name, name)) return all[i];
    return NULL;
}

const coll_kind *coll_choose(const coll_job *j, int ranks)
{
    const uint64_t one = coll_chunk_bytes(j, j->partial, coll_whole(j));
    return one * (uint64_t)(ranks - 1) <= COLL_SMALL ? &coll_one_shot : &coll_two_step;
}
