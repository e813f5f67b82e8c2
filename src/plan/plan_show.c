/* plan_show.c - what lies on which device, as text and as JSON, and what a step reads of it. */
#include "plan/plan_show.h"
#include "plan/plan_state.h"

#include "core/kv_type.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* ---- what it costs */

/* True when op i is the first that reads this weight. */
static bool first_use(const program *p, uint32_t i, uint32_t w)
{
    for (uint32_t j = 0; j < i; j++)
        for (int k = 0; k < 4; k++) {
            const tensor *t = &p->tensors[p->ops[j].in[k]];
            if (p->ops[j].in[k] && t->kind == TENSOR_WEIGHT && t->weight == w) return false;
        }
    return true;
}

static uint64_t weight_bytes(const weight *w)
{
    uint64_t n = 0, file = weight_file_bytes(w);
    dtype type = w->vector ? DTYPE_F32 : w->want;
    if (type == DTYPE_NONE || !dtype_bytes(type, (uint64_t)w->cols, &n)) return file;
    return n * (uint64_t)w->rows;
}

static uint64_t segment_bytes(const segment *s)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->p->n_op; i++)
        for (int k = 0; k < 4; k++) {
            const tensor *t = &s->p->tensors[s->p->ops[i].in[k]];
            if (s->p->ops[i].in[k] && t->kind == TENSOR_WEIGHT && first_use(s->p, i, t->weight))
                sum += weight_bytes(&s->p->weights[t->weight]);
        }
    return sum;
}

/* The share of an operand that `rows` token rows use: 1 but for experts. */
static double used_share(const program *p, const op *o, int k, int64_t rows)
{
    if (o->kind != OP_MATMUL_EXP) return 1;
    int32_t parts = p->weights[p->tensors[o->in[1]].weight].parts;
    return k == 1 || k == 2 ? 1 - pow(1 - (double)p->n_used / parts, (double)rows) : 1;
}

uint64_t plan_weight_bytes(const plan *l, int64_t rows, uint64_t *count)
{
    double sum = 0, numbers = 0;
    for (uint32_t i = 0; i < l->p->n_op; i++) {
        const op *o = &l->p->ops[i];
        for (int k = 0; k < 4 && o->kind != OP_EMBED; k++) {
            const tensor *t = &l->p->tensors[o->in[k]];
            if (!o->in[k] || t->kind != TENSOR_WEIGHT) continue;
            sum += used_share(l->p, o, k, rows) * (double)weight_bytes(&l->p->weights[t->weight]);
            numbers += used_share(l->p, o, k, 1) * (double)tensor_count(t);
        }
    }
    if (count) *count = (uint64_t)(numbers + 0.5);
    return (uint64_t)(sum + 0.5);
}

const char *plan_isa(const plan *l)
{
    int i = 0;
    while (i + 1 < l->n && !l->ranks[i].seg.on) i++;
    return l->ranks[i].seg.on ? l->ranks[i].seg.be->isa(l->ranks[i].seg.on) : "";
}

/* Keys, values and slots of the segment's states when all are in use. */
static uint64_t segment_kv_bytes(const plan *l, const segment *s)
{
    uint64_t page[GROUP_MAX] = {0}, sum = 0;
    plan_add_pages(s->p, l->cache.k_type, l->cache.v_type, page);
    for (int g = 0; g < GROUP_MAX; g++) sum += page[g] * (uint64_t)l->cache.n_page[g];
    return sum + program_slot_bytes(s->p) * (uint64_t)l->cache.n_slot;
}

static double mebi(uint64_t n) { return (double)n / (1 << 20); }

static const char *device_name(const plan_rank *s, char *to, size_t cap)
{
    const int n = snprintf(to, cap, "%s%s%s", s->node, s->node[0] ? "/" : "", s->name);
    if (s->number >= 0 && n > 0 && (size_t)n < cap) snprintf(to + n, cap - (size_t)n, ":%d", s->number);
    return to;
}

/* The ops of one segment, each with the place of its result in the segment's arena. */
static void dump_segment(const plan *l, int i, buf *out)
{
    const plan_rank *st = &l->ranks[i];
    const segment *s = &st->seg;
    const program *p = s->p;
    char name[DEVICE_NODE + 2 * DEVICE_NAME];
    buf_printf(out, "\nsegment %d on %s: ops 0-%u, ", i, device_name(st, name, sizeof name), p->n_op - 1);
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

bool plan_text(const plan *l, bool dump, buf *out)
{
    const program *p = l->p;
    if (dump) program_dump_head(p, out);
    else buf_printf(out, "%d layers, dim %" PRId64 ", vocab %" PRId64 "\n", p->n_layer, p->dim, p->vocab);
    buf_printf(out, "%-3s %-8s %-8s %12s %12s %12s %12s  %s\n", "#", "device", "layers", "weights MiB", "own MiB",
               "KV MiB", "step MiB", "hands over");
    for (int i = 0; i < l->n; i++) {
        const plan_rank *s = &l->ranks[i];
        char name[DEVICE_NODE + 2 * DEVICE_NAME], layers[32];
        if (!s->seg.on) {
            buf_printf(out, "%-3d %-8s %d-%d\n", i, device_name(s, name, sizeof name), group_of(l, s)->layer0,
                       group_of(l, s)->layer1 - 1);
            continue;
        }
        uint64_t kv = segment_kv_bytes(l, &s->seg), held = s->seg.be->held_bytes(s->seg.on);
        const plan_group *g = group_of(l, s);
        snprintf(layers, sizeof layers, "%d-%d", g->layer0, g->layer1 - 1);
        buf_printf(out, "%-3d %-8s %-8s %12.1f %12.1f %12.1f %12.1f  ", i, device_name(s, name, sizeof name), layers,
                   mebi(segment_bytes(&s->seg)), mebi(held - kv), mebi(kv), mebi(s->seg.act_bytes));
        const bool last = s->group + 1 == l->n_group;
        for (uint32_t k = 0; k < s->seg.n_out && !last; k++)
            buf_printf(out, "%s%s", k ? ", " : "", s->seg.p->tensors[s->seg.out[k]].name);
        buf_str(out, last || !s->seg.n_out ? "-\n" : "\n");
    }
    for (int i = 0; i < l->n && dump; i++)
        if (l->ranks[i].seg.on) dump_segment(l, i, out);
    return !out->bad;
}

static void add_rank(const plan *l, int i, json *ranks)
{
    const plan_rank *s = &l->ranks[i];
    uint64_t kv = segment_kv_bytes(l, &s->seg);
    json *one = json_add_object(ranks, NULL);
    char name[DEVICE_NODE + 2 * DEVICE_NAME];
    json_add_str(one, "device", device_name(s, name, sizeof name));
    json_add_int(one, "group", s->group);
    json_add_int(one, "rank", s->index);
    json_add_int(one, "ranks", group_of(l, s)->ranks);
    json *layers = json_add_array(one, "layers");
    json_add_int(layers, NULL, group_of(l, s)->layer0);
    json_add_int(layers, NULL, group_of(l, s)->layer1);
    json_add_int(one, "weight_bytes", (int64_t)segment_bytes(&s->seg));
    json_add_int(one, "own_bytes", (int64_t)(s->seg.be->held_bytes(s->seg.on) - kv));
    json_add_int(one, "kv_bytes", (int64_t)kv);
    json_add_int(one, "step_bytes", (int64_t)s->seg.act_bytes);
}

void plan_json(const plan *l, json *root)
{
    json *ranks = json_add_array(root, "ranks"), *edges = json_add_array(root, "edges");
    for (int i = 0; i < l->n; i++)
        if (l->ranks[i].seg.on) add_rank(l, i, ranks);
    for (int i = 0; i < l->n; i++)
        for (uint32_t k = 0; k < l->ranks[i].seg.n_in; k++) {
            const edge *in = &l->ranks[i].seg.in[k];
            json *one = json_add_object(edges, NULL);
            json_add_int(one, "from", in->from);
            json_add_int(one, "to", i);
            json_add_str(one, "tensor", l->p->tensors[in->t].name);
            json_add_str(one, "kind", "move");
        }
}
