/* plan_show.c - what lies on which device, as text and as JSON, and what a step reads of it. */
#include "plan/plan_show.h"
#include "plan/plan_part.h"
#include "plan/step_cost.h"

#include "base/mem.h"
#include "core/act_move.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

uint64_t plan_weight_bytes(const plan *l, int64_t rows, uint64_t *count)
{
    double numbers = 0;
    const double sum = step_cost_weights(l->p, 0, l->p->n_op, (double)rows, &numbers);
    if (count) *count = (uint64_t)(numbers + 0.5);
    return (uint64_t)(sum + 0.5);
}

/* Those of the first device here; NULL: all are on nodes. */
static const rank_weights *first_here(const plan *l)
{
    int i = 0;
    while (i < l->n && !l->ranks[i].weights) i++;
    return i < l->n ? l->ranks[i].weights : NULL;
}

const char *plan_isa(const plan *l)
{
    const rank_weights *w = first_here(l);
    return w ? w->be->isa(w->set) : "";
}

const char *plan_exact_note(const plan *l)
{
    const char *note = NULL;
    for (int i = 0; i < l->n && !note; i++) {
        const rank_weights *w = l->ranks[i].weights;
        note = w && w->be->exact_note ? w->be->exact_note(w->set) : NULL;
    }
    return note;
}

void plan_tell(const plan *l, json *to)
{
    const rank_weights *w = first_here(l);
    if (w && w->be->tell) w->be->tell(w->set, to);
}

static double mebi(uint64_t n) { return (double)n / (1 << 20); }

const char *plan_device_name(const plan *l, int i, char to[PLAN_DEVICE_NAME])
{
    const plan_rank *r = &l->ranks[i];
    const char *name = r->name[0] ? r->name : r->seg.be->name; /* tables and head of a leader are on its own */
    const int n = snprintf(to, PLAN_DEVICE_NAME, "%s%s%s", r->node, r->node[0] ? "/" : "", name);
    if (r->number >= 0 && n > 0 && n < PLAN_DEVICE_NAME)
        snprintf(to + n, (size_t)(PLAN_DEVICE_NAME - n), ":%d", r->number);
    return to;
}

/* The ops of one segment, each with the place of its result in the segment's arena. */
static void dump_segment(const plan *l, int i, buf *out)
{
    const plan_rank *st = &l->ranks[i];
    const segment *s = &st->seg;
    const program *p = s->p;
    char name[PLAN_DEVICE_NAME];
    buf_printf(out, "\nsegment %d on %s: ops 0-%u, ", i, plan_device_name(l, i, name), p->n_op - 1);
    if (!s->n_in) buf_str(out, "tokens");
    for (uint32_t k = 0; k < s->n_in; k++) buf_printf(out, "%s%s", k ? ", " : "", p->tensors[s->in[k].t].name);
    buf_str(out, " -> ");
    for (uint32_t k = 0; k < s->n_out; k++) buf_printf(out, "%s%s", k ? ", " : "", p->tensors[s->out[k]].name);
    buf_printf(out, ", arena of %" PRIu64 " bytes\n", s->act_bytes);
    for (uint32_t k = 0, end = 0; k < p->n_op; k++) {
        uint32_t n = 1;
        const char *fused = k < end || !s->be->fused ? NULL : s->be->fused(s, k, &n);
        if (fused) buf_printf(out, "%-10sops %u-%u are one: %s\n", "", k, k + n - 1, fused);
        if (k >= end) end = k + n;
        if (p->ops[k].out) buf_printf(out, "@%-9" PRIu64, p->tensors[p->ops[k].out].off);
        else buf_printf(out, "%-10s", "");
        program_dump_op(p, k, out);
    }
}

/* Memory for activations, kernels and rows on their way to other ranks. */
static uint64_t step_bytes(const plan_rank *r, const plan_part *part)
{
    const uint64_t work = r->seg.be->held_bytes(r->seg.on) - part->kv_bytes - part->host_bytes;
    return work + (uint64_t)r->n_lane * (r->seg.act_bytes + r->coll_bytes + r->rows_bytes + r->plain_bytes);
}

/* ---- edges */

/* A rank's result of the collective that ends stretch k. */
static tensor result_of_coll(const plan *l, const plan_group *g, uint32_t k)
{
    int i = 0; /* one that takes it, here if any is: they are alike */
    for (int r = g->ranks; r-- > 0;)
        if (g->colls[k].takes[r] && (l->ranks[g->rank0 + r].seg.p || !l->ranks[g->rank0 + i].seg.p)) i = r;
    const program *lowered = l->ranks[g->rank0 + i].seg.p, *p = lowered ? lowered : cut_program(g->by_columns, i);
    uint32_t at = 0;
    while (p->ops[at].kind != OP_COLL || k-- > 0) at++;
    tensor t = p->tensors[p->ops[at].out];
    if (!lowered) t.block = (uint8_t)p->ops[at].u.coll.codes;
    return t;
}

/* What one group hands over to another, or its ranks to each other. */
typedef struct edge_shown {
    int from, to; /* groups; to -1: the leader */
    const char *tensor, *kind, *codec, *algorithm;
    uint64_t bytes; /* of a row */
    int hops;
} edge_shown;

/* Of a reduction: the partial sums of one rank, in a step of one row. */
static void set_reduction(const plan *l, const plan_group *g, const tensor *t, edge_shown *to)
{
    const coll_job j = reduction_job(&l->reduction, 1, tensor_count(t), g->ranks);
    to->kind = "reduce";
    to->codec = l->reduction.codec->name;
    to->algorithm = j.kind->name;
    to->hops = j.kind->hops(g->ranks);
    to->bytes = (uint64_t)wire_bytes(j.partial, j.group, j.cols);
}

static edge_shown edge_of_coll(const plan *l, int group, uint32_t k)
{
    const plan_group *g = &l->groups[group];
    const cut_coll *what = &g->colls[k];
    const tensor t = result_of_coll(l, g, k);
    edge_shown shown = {.from = group,
                        .to = group,
                        .tensor = l->p->tensors[what->t].name,
                        .kind = "gather",
                        .codec = wire_infos[t.block ? WIRE_Q8 : WIRE_F32].name,
                        .algorithm = coll_gather.name,
                        .hops = coll_gather.hops(g->ranks)};
    if (what->how == COLL_OWNER) shown.bytes = act_move_bytes(&t, tensor_count(&t));
    if (what->how == COLL_REDUCE) set_reduction(l, g, &t, &shown);
    for (int r = 0; r < g->ranks && what->how == COLL_GATHER; r++)
        shown.bytes += act_move_bytes(&t, what->of[r].to - what->of[r].from);
    return shown;
}

static bool group_reads(const plan *l, int group, uint32_t k)
{
    const plan_group *g = &l->groups[group];
    for (int i = 0; i < g->ranks; i++)
        if (l->ranks[g->rank0 + i].receives[k]) return true;
    return false;
}

/* Of a row: what all ranks that have columns of it give; of a result, all that are on nodes, as floats. */
static uint64_t bytes_of_move(const plan *l, uint32_t k, bool result)
{
    const plan_group *g = &l->groups[l->cross[k].from];
    uint64_t sum = 0;
    for (int i = g->rank0; i < g->rank0 + g->ranks; i++) {
        const cut_part *part = &l->ranks[i].sends[k];
        const int64_t cols = part->columns.to - part->columns.from;
        if (!part->t || (result && !l->ranks[i].node[0])) continue;
        sum += result ? (uint64_t)cols * sizeof(float) : passed_bytes(l, cols, 1);
    }
    return sum;
}

/* Calls `take` with each edge. */
static void each_edge(const plan *l, void (*take)(void *self, const edge_shown *e), void *self)
{
    for (int to = 0; to < l->n_group; to++) {
        for (uint32_t k = 0; k < l->n_cross; k++) {
            const tensor *t = &l->p->tensors[l->cross[k].t];
            const bool result = to == plan_groups(l);
            const edge_shown move = {.from = l->cross[k].from,
                                     .to = result ? -1 : to,
                                     .tensor = t->name,
                                     .kind = result ? "result" : "move",
                                     .codec = wire_infos[result ? WIRE_F32 : l->wire].name,
                                     .bytes = bytes_of_move(l, k, result),
                                     .hops = 1};
            if (group_reads(l, to, k)) take(self, &move);
        }
        for (uint32_t k = 0; k < l->groups[to].n_coll; k++) {
            const edge_shown joined = edge_of_coll(l, to, k);
            take(self, &joined);
        }
    }
}

/* ---- text */

enum { RUN = 32 };

static const char *run_text(int64_t from, int64_t to, char text[RUN])
{
    if (from == to) snprintf(text, RUN, "-");
    else snprintf(text, RUN, "%" PRId64 "-%" PRId64, from, to - 1);
    return text;
}

static void add_line(const plan *l, int i, const plan_part *part, int wide, buf *out)
{
    const plan_rank *r = &l->ranks[i];
    const plan_group *g = group_of(l, r);
    const cut_range run[] = {
        {g->layer0, g->layer1}, part->heads, part->kv_heads, part->ffn, part->vocab,
    };
    static const int width[] = {7, 7, 7, 11, 13};
    char name[PLAN_DEVICE_NAME], text[RUN];
    buf_printf(out, "%-3d %-*s %5d", i, wide, plan_device_name(l, i, name), r->group);
    for (int k = 0; k < 5; k++) buf_printf(out, " %*s", width[k], run_text(run[k].from, run[k].to, text));
    buf_printf(out, " %11.1f", mebi(part->weight_bytes));
    if (r->seg.on)
        buf_printf(out, " %8.1f %8.1f %8.1f %8.1f\n", mebi(r->weights->bytes - r->weights->host), mebi(part->kv_bytes),
                   mebi(step_bytes(r, part)), mebi(r->weights->host + part->host_bytes));
    else buf_printf(out, " %8s %8.1f %8s %8s\n", "-", mebi(part->kv_bytes), "-", "-");
}

/* Collectives of a group, summed up by kind; an edge to another group has a line of its own. */
typedef struct edge_lines {
    const plan *l;
    buf *out;
    uint32_t colls; /* of a group, so far */
    struct kind_sum {
        int n, codes;
        uint64_t bytes;
    } gathers, sums;
} edge_lines;

static void end_group(edge_lines *s, int group)
{
    const plan_group *g = &s->l->groups[group];
    const struct kind_sum *k = &s->gathers;
    if (k->n)
        buf_printf(s->out, "group %d: %d ranks; gathers in a step: %d, of them %d as int8; %.1f KiB a row in all\n",
                   group, g->ranks, k->n, k->codes, (double)k->bytes / 1024);
    k = &s->sums;
    if (k->n)
        buf_printf(s->out, "group %d: %d ranks; sums in a step: %d, in %s; %.1f KiB a row in all\n", group, g->ranks,
                   k->n, s->l->reduction.codec->name, (double)k->bytes / 1024);
    *s = (edge_lines){.l = s->l, .out = s->out};
}

static void add_edge_line(void *self, const edge_shown *e)
{
    edge_lines *s = self;
    if (e->from != e->to) {
        buf_printf(s->out, "group %d -> ", e->from);
        if (e->to < 0) buf_str(s->out, "leader");
        else buf_printf(s->out, "%d", e->to);
        buf_printf(s->out, ": %s, %s, %" PRIu64 " bytes a row\n", e->tensor, e->codec, e->bytes);
        return;
    }
    struct kind_sum *k = strcmp(e->kind, "reduce") ? &s->gathers : &s->sums;
    k->n++;
    k->codes += strcmp(e->codec, wire_infos[WIRE_F32].name) != 0;
    k->bytes += e->bytes;
    if (++s->colls == s->l->groups[e->to].n_coll) end_group(s, e->to);
}

int plan_text(const plan *l, bool dump, buf *out, err *e)
{
    const program *p = l->p;
    plan_part *parts;
    int wide = 6, rc = plan_parts(l, &parts, e);
    if (rc) return rc;
    if (dump) program_dump_head(p, out);
    else buf_printf(out, "%d layers, dim %" PRId64 ", vocab %" PRId64 "\n", p->n_layer, p->dim, p->vocab);
    for (int i = 0; i < plan_devices(l); i++) {
        char name[PLAN_DEVICE_NAME];
        const int n = (int)strlen(plan_device_name(l, i, name));
        if (n > wide) wide = n;
    }
    buf_printf(out, "%-3s %-*s %5s %7s %7s %7s %11s %13s %11s %8s %8s %8s %8s\n", "#", wide, "device", "group",
               "layers", "heads", "kv", "ffn", "vocab", "weights MiB", "own MiB", "KV MiB", "step MiB", "host MiB");
    for (int i = 0; i < plan_devices(l); i++) add_line(l, i, &parts[i], wide, out);
    mem_free(parts);
    edge_lines lines = {.l = l, .out = out};
    each_edge(l, add_edge_line, &lines);
    for (int i = 0; i < l->n && dump; i++)
        if (l->ranks[i].seg.on) dump_segment(l, i, out);
    return out->bad ? err_memory(e, "the text of the plan") : OK;
}

/* ---- JSON */

static void add_run(json *one, const char *key, int64_t from, int64_t to)
{
    json *run = json_add_array(one, key);
    json_add_int(run, NULL, from);
    json_add_int(run, NULL, to);
}

static void add_rank(const plan *l, int i, const plan_part *part, double seconds, json *ranks)
{
    const plan_rank *r = &l->ranks[i];
    const plan_group *g = group_of(l, r);
    json *one = json_add_object(ranks, NULL);
    char name[PLAN_DEVICE_NAME];
    int64_t pages = 0;
    for (uint32_t k = 0; k < l->p->n_group; k++)
        if (l->cache.n_page[k] > pages) pages = l->cache.n_page[k];
    json_add_str(one, "device", plan_device_name(l, i, name));
    json_add_int(one, "group", r->group);
    json_add_int(one, "rank", r->index);
    json_add_int(one, "ranks", g->ranks);
    add_run(one, "layers", g->layer0, g->layer1);
    add_run(one, "heads", part->heads.from, part->heads.to);
    add_run(one, "kv_heads", part->kv_heads.from, part->kv_heads.to);
    add_run(one, "ffn", part->ffn.from, part->ffn.to);
    add_run(one, "vocab", part->vocab.from, part->vocab.to);
    json_add_int(one, "weight_bytes", (int64_t)part->weight_bytes);
    if (r->weights) json_add_int(one, "own_bytes", (int64_t)(r->weights->bytes - r->weights->host));
    if (r->weights) json_add_int(one, "host_bytes", (int64_t)(r->weights->host + part->host_bytes));
    json_add_int(one, "kv_page_bytes", (int64_t)part->page_bytes);
    json_add_int(one, "pages", pages);
    json_add_int(one, "kv_bytes", (int64_t)part->kv_bytes);
    if (r->seg.on) json_add_int(one, "step_bytes", (int64_t)step_bytes(r, part));
    if (seconds > 0) json_add_num(one, "tokens_per_s", 1 / seconds);
    if (plan_pretended_speed(l, i)) json_add_str(one, "as", plan_pretended_speed(l, i));
    if (r->weights && r->seg.be->tell) r->seg.be->tell(r->weights->set, json_add_object(one, "fetch"));
}

static void add_edge(void *self, const edge_shown *e)
{
    json *one = json_add_object(self, NULL);
    json_add_int(one, "from", e->from);
    json_add_int(one, "to", e->to);
    json_add_str(one, "tensor", e->tensor);
    json_add_str(one, "kind", e->kind);
    json_add_str(one, "codec", e->codec);
    if (e->algorithm) json_add_str(one, "algorithm", e->algorithm);
    json_add_int(one, "bytes_per_row", (int64_t)e->bytes);
    json_add_int(one, "hops", e->hops);
}

int plan_json(const plan *l, const double *seconds, json *root, err *e)
{
    plan_part *parts;
    int rc = plan_parts(l, &parts, e);
    if (rc) return rc;
    json_add_str(root, "reduce", l->reduction.codec ? l->reduction.codec->name : "exact");
    json_add_str(root, "wire", wire_infos[l->wire].name);
    json *ranks = json_add_array(root, "ranks");
    for (int i = 0; i < plan_devices(l); i++) add_rank(l, i, &parts[i], seconds ? seconds[i] : 0, ranks);
    mem_free(parts);
    each_edge(l, add_edge, json_add_array(root, "edges"));
    return OK;
}
