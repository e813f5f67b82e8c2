/* link_part.c - see link_part.h. */
#include "comm/link_part.h"

static link_part *part_of(link_end *l) { return (link_part *)l; }

static int part_post(link_end *l, int to, int channel, const void *bytes, uint64_t n, err *e)
{
    link_part *p = part_of(l);
    l->posted += n;
    return p->of->kind->post(p->of, p->rank0 + to, channel, bytes, n, e);
}

static bool part_taken(link_end *l, int to, int channel)
{
    link_part *p = part_of(l);
    return p->of->kind->taken(p->of, p->rank0 + to, channel);
}

static int part_take(link_end *l, int from, int channel, uint64_t n, const void **bytes, err *e)
{
    link_part *p = part_of(l);
    return p->of->kind->take(p->of, p->rank0 + from, channel, n, bytes, e);
}

static void part_release(link_end *l, int from, int channel)
{
    link_part *p = part_of(l);
    p->of->kind->release(p->of, p->rank0 + from, channel);
}

static int part_wait(link_end *l, err *e) { return part_of(l)->of->kind->wait(part_of(l)->of, e); }

static void part_give_up(link_end *l, int code, const char *why)
{
    part_of(l)->of->kind->give_up(part_of(l)->of, code, why);
}

static const link_kind part_kind = {
    .name = "part",
    .post = part_post,
    .taken = part_taken,
    .take = part_take,
    .release = part_release,
    .wait = part_wait,
    .give_up = part_give_up,
};

void link_part_open(link_part *l, link_end *of, int rank0, int ranks)
{
    *l = (link_part){.base = {.kind = &part_kind, .rank = of->rank - rank0, .ranks = ranks}, .of = of, .rank0 = rank0};
}
