/* coll_reduce.c - see coll_reduce.h. */
#include "comm/coll_reduce.h"

static int64_t groups_of_row(const coll_job *j) { return (j->cols + j->group - 1) / j->group; }

coll_chunk coll_whole(const coll_job *j) { return (coll_chunk){0, j->rows * groups_of_row(j)}; }

coll_chunk coll_chunk_of(const coll_job *j, int rank, int ranks)
{
    const int64_t n = coll_whole(j).to;
    return (coll_chunk){n * rank / ranks, n * (rank + 1) / ranks};
}

/* Takes from a chunk what it has of its first row: n elements of x from *at on. */
static int64_t run_of_row(const coll_job *j, coll_chunk *k, int64_t *at)
{
    const int64_t groups = groups_of_row(j), row = k->from / groups, first = k->from % groups * j->group;
    const int64_t to = k->to < (row + 1) * groups ? k->to : (row + 1) * groups, end = (to - row * groups) * j->group;
    *at = row * j->cols + first;
    k->from = to;
    return (end < j->cols ? end : j->cols) - first;
}

uint64_t coll_chunk_bytes(const coll_job *j, wire_type t, coll_chunk k)
{
    uint64_t sum = 0;
    int64_t at;
    while (k.from < k.to) sum += (uint64_t)wire_bytes(t, j->group, run_of_row(j, &k, &at));
    return sum;
}

uint64_t coll_chunk_most(const coll_job *j, wire_type t, int ranks)
{
    const int64_t most = (coll_whole(j).to + ranks - 1) / ranks;
    return (uint64_t)(most * wire_group_bytes(t, j->cols < j->group ? j->cols : j->group));
}

void coll_encode(const coll_job *j, wire_type t, coll_chunk k, uint8_t *to)
{
    for (int64_t at, n; k.from < k.to; to += wire_bytes(t, j->group, n)) {
        n = run_of_row(j, &k, &at);
        j->wire->encode(t, j->group, j->x + at, n, to);
    }
}

void coll_decode(const coll_job *j, wire_type t, coll_chunk k, const uint8_t *from)
{
    for (int64_t at, n; k.from < k.to; from += wire_bytes(t, j->group, n)) {
        n = run_of_row(j, &k, &at);
        j->wire->decode(t, j->group, from, n, j->x + at);
    }
}

void coll_add(const coll_job *j, wire_type t, coll_chunk k, const uint8_t *from)
{
    for (int64_t at, n; k.from < k.to; from += wire_bytes(t, j->group, n)) {
        n = run_of_row(j, &k, &at);
        j->wire->add(t, j->group, from, n, j->x + at);
    }
}
