/* coll.c - see coll.h. */
#include "comm/coll.h"

uint64_t coll_bytes(const coll_job *j, int rank, int ranks)
{
    return 2 * ((j->kind->bytes(j, rank, ranks) + 63) / 64 * 64);
}

void coll_open(coll *c, link_end *l, int channel0, void *memory, uint64_t bytes)
{
    *c = (coll){.link = l, .memory = memory, .half = bytes / 2, .channel0 = channel0};
}

void *coll_own(const coll *c) { return c->memory + c->turn % 2 * c->half; }

/* Whether others have taken all that was posted from the half of the next job. */
static bool half_is_free(coll *c)
{
    bool is = true;
    for (int step = 0; step < COLL_STEP_CHANNELS; step++)
        for (int r = 0; r < c->link->ranks; r++)
            is = (r == c->link->rank || c->link->kind->taken(c->link, r, coll_channel(c, step))) && is;
    return is;
}

int coll_enter(coll *c, err *e)
{
    int rc = OK;
    while (!half_is_free(c) && !rc) rc = c->link->kind->wait(c->link, e);
    return rc;
}

int coll_leave(coll *c, err *e)
{
    int rc = coll_enter(c, e);
    c->turn++;
    return rc ? rc : coll_enter(c, e);
}

void coll_begin(coll *c, const coll_job *j)
{
    c->job = j;
    c->step = 0;
    c->came = 0;
}

int coll_advance(coll *c, err *e)
{
    int rc = c->job->kind->advance(c, e);
    c->turn += rc == COLL_DONE;
    return rc;
}

int coll_run(coll *c, err *e)
{
    int rc;
    while ((rc = coll_advance(c, e)) == COLL_WAITS)
        if ((rc = c->link->kind->wait(c->link, e))) break;
    return rc;
}
