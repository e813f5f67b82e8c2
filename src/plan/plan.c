/* plan.c - see plan.h. */
#include "plan/plan.h"

#include "base/mem.h"
#include "core/kv_type.h"
#include "core/place.h"
#include "plan/devices.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct stage {
    segment seg;
    uint8_t *act;
    int layer0, layer1; /* [layer0, layer1) */
    int number;         /* of the device notation, -1 none */
} stage;

struct plan {
    program *p;
    dev_options opt;
    stage *stages;
    int n;
};

/* ---- cutting */

/* First op of layer l; n_op when l is past the last layer (then the tail after the layers counts as the last
 * segment's). */
static uint32_t layer_start(const program *p, int layer)
{
    uint32_t i = 0;
    while (i < p->n_op && p->ops[i].layer != layer) i++;
    return i;
}

static bool is_cut(const program *p, uint32_t i)
{
    for (uint32_t k = 0; k < p->n_cut; k++)
        if (p->cuts[k] == i) return true;
    return false;
}

/* Whether t is written before op `at` and read at or after it. */
static bool alive(const program *p, ref t, uint32_t at)
{
    bool written = false;
    for (uint32_t i = 0; i < p->n_op; i++) {
        if (i < at) written = written || p->ops[i].out == t;
        for (int k = 0; k < 4 && written && i >= at; k++)
            if (p->ops[i].in[k] == t) return true;
    }
    return false;
}

/* The activation that is alive before op `at`, the encoder's result apart. */
static ref alive_at(const program *p, uint32_t at)
{
    for (uint32_t i = at; i < p->n_op; i++)
        for (int k = 0; k < 4; k++) {
            ref t = p->ops[i].in[k];
            if (!t || t == p->entries[ENTRY_ENC].out || p->tensors[t].kind != TENSOR_ACT) continue;
            for (uint32_t j = 0; j < at; j++)
                if (p->ops[j].out == t) return t;
        }
    return 0;
}

/* Gives each device a run of layers in proportion to its share, at least one, at boundaries that are cut points. */
static int divide(plan *l, const device_entry *d, err *e)
{
    const program *p = l->p;
    const int layers = p->n_enc + p->n_layer;
    const ref memory = p->entries[ENTRY_ENC].out;
    double total = 0, sum = 0;
    if (l->n > layers && l->n > 1)
        return err_set(e, ERR_USAGE, "--devices: %d devices for a model of %d layers", l->n, layers);
    for (int i = 0; i < l->n; i++) total += d[i].share;
    int layer = 0;
    uint32_t op0 = 0;
    ref in = 0;
    for (int i = 0; i < l->n; i++) {
        stage *s = &l->stages[i];
        sum += d[i].share;
        int end = (int)(sum / total * layers + 0.5), most = layers - (l->n - 1 - i);
        if (end < layer + 1) end = layer + 1;
        if (end > most || i == l->n - 1) end = most;
        uint32_t op1 = p->n_op;
        if (i < l->n - 1) {
            while (end < most && !is_cut(p, layer_start(p, end))) end++;
            op1 = layer_start(p, end);
            if (!is_cut(p, op1))
                return err_set(
                    e, ERR_USAGE,
                    "--devices: this model cannot be divided before layer %d: more than one activation lives there",
                    end);
        }
        ref out = op1 < p->n_op ? alive_at(p, op1) : 0;
        s->seg = (segment){.p = p, .op0 = op0, .op1 = op1, .in = in, .out = out, .be = d[i].be};
        if (op0 && memory && alive(p, memory, op0)) s->seg.memory = memory;
        s->layer0 = layer;
        s->layer1 = end;
        s->number = d[i].number;
        layer = end;
        op0 = op1;
        in = out;
    }
    return 0;
}

/* ---- opening */

static int bind_weights(stage *s, const program *p, err *e)
{
    for (uint32_t i = s->seg.op0; i < s->seg.op1; i++)
        for (int k = 0; k < 4; k++) {
            const tensor *t = &p->tensors[p->ops[i].in[k]];
            if (!p->ops[i].in[k] || t->kind != TENSOR_WEIGHT) continue;
            int rc = s->seg.be->weight_put(s->seg.on, p, t->weight, e);
            if (rc) return rc;
        }
    return 0;
}

static int stage_open(plan *l, stage *s, err *e)
{
    dev_options o = l->opt;
    if (s->number > 0) o.threads = s->number;
    int rc = s->seg.be->open(&s->seg.on, s->number < 0 ? 0 : s->number, l->p, &o, e);
    if (!rc) rc = place_segment(l->p, &s->seg, o.max_rows, e);
    if (!rc) rc = bind_weights(s, l->p, e);
    if (!rc) rc = s->seg.be->compile(s->seg.on, &s->seg, e);
    if (rc) return rc;
    s->act = mem_map(s->seg.act_bytes);
    return s->act ? 0 : err_set(e, ERR_MEMORY, "out of memory for activations (%" PRIu64 " bytes)", s->seg.act_bytes);
}

int plan_open(plan **out, program *p, const plan_options *o, err *e)
{
    device_entry d[DEVICES_MAX];
    *out = NULL;
    int n = devices_parse(o->devices, o->backends, d, e);
    if (n < 0) return n;
    plan *l = mem_zero(1, sizeof *l);
    if (l) l->stages = mem_zero((size_t)n, sizeof *l->stages);
    if (!l || !l->stages) {
        mem_free(l);
        return err_set(e, ERR_MEMORY, "out of memory for the plan");
    }
    l->p = p;
    l->opt = o->dev;
    l->n = n;
    int rc = divide(l, d, e);
    for (uint32_t i = 0; i < p->n_rope && !rc; i++) rc = rope_fill(&p->ropes[i], e);
    for (int i = 0; i < n && !rc; i++) rc = stage_open(l, &l->stages[i], e);
    if (rc) plan_close(l);
    else *out = l;
    return rc;
}

void plan_close(plan *l)
{
    if (!l) return;
    for (int i = 0; i < l->n; i++) {
        stage *s = &l->stages[i];
        mem_unmap(s->act, s->seg.act_bytes);
        if (!s->seg.on) continue;
        s->seg.be->discard(s->seg.on, &s->seg);
        s->seg.be->close(s->seg.on);
    }
    mem_free(l->stages);
    mem_free(l);
}

/* ---- running */

/* Copies an activation from the stage before; t 0: none. */
static void hand_over(const plan *l, int i, ref t, const step *st)
{
    const tensor *in = &l->p->tensors[t];
    if (!t || st->n[in->axis] == 0) return;
    memcpy(l->stages[i].act + in->off, l->stages[i - 1].act + in->off,
           (size_t)(tensor_count(in) * st->n[in->axis]) * sizeof(float));
}

int plan_step(plan *l, const step *st, err *e)
{
    for (int i = 0; i < l->n; i++) {
        stage *s = &l->stages[i];
        hand_over(l, i, s->seg.in, st);
        hand_over(l, i, s->seg.memory, st);
        int rc = s->seg.be->run(&(run){.seg = &s->seg, .st = st, .act = s->act}, e);
        if (rc) return rc;
    }
    return 0;
}

const float *plan_result(const plan *l, int entry)
{
    return (const float *)(l->stages[l->n - 1].act + l->p->tensors[l->p->entries[entry].out].off);
}

const float *plan_logits(const plan *l) { return plan_result(l, ENTRY_HEAD); }

int plan_page_copy(plan *l, int group, int32_t from, int32_t to, int tokens, err *e)
{
    int rc = 0;
    for (int i = 0; i < l->n && !rc; i++)
        rc = l->stages[i].seg.be->page_copy(l->stages[i].seg.on, group, from, to, tokens, e);
    return rc;
}

int plan_segments(const plan *l) { return l->n; }

const segment *plan_segment(const plan *l, int i) { return &l->stages[i].seg; }

/* ---- what it costs */

/* True when op i is the first of [op0, i] that reads this weight. */
static bool first_use(const program *p, uint32_t op0, uint32_t i, uint32_t w)
{
    for (uint32_t j = op0; j < i; j++)
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
    for (uint32_t i = s->op0; i < s->op1; i++)
        for (int k = 0; k < 4; k++) {
            const tensor *t = &s->p->tensors[s->p->ops[i].in[k]];
            if (s->p->ops[i].in[k] && t->kind == TENSOR_WEIGHT && first_use(s->p, s->op0, i, t->weight))
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

const char *plan_isa(const plan *l) { return l->stages[0].seg.be->isa(l->stages[0].seg.on); }

/* True when no op of [op0, i) writes the state that op i writes: layers may share one. */
static bool first_put(const program *p, uint32_t op0, uint32_t i)
{
    for (uint32_t j = op0; j < i; j++)
        if (p->ops[j].kind == OP_KV_PUT && p->ops[j].state == p->ops[i].state) return false;
    return true;
}

/* Keys and values of the segment's states when every page is in use. */
static uint64_t segment_kv_bytes(const plan *l, const segment *s)
{
    uint64_t sum = 0;
    for (uint32_t i = s->op0; i < s->op1; i++) {
        if (s->p->ops[i].kind != OP_KV_PUT || !first_put(s->p, s->op0, i)) continue;
        const state *t = &s->p->states[s->p->ops[i].state];
        sum += kv_page_bytes(t, l->opt.k_type, l->opt.v_type) * (uint64_t)l->opt.n_page[t->group];
    }
    return sum;
}

static double mebi(uint64_t n) { return (double)n / (1 << 20); }

static const char *device_name(const stage *s, char *to, size_t cap)
{
    snprintf(to, cap, s->number >= 0 ? "%s:%d" : "%s", s->seg.be->name, s->number);
    return to;
}

/* The ops of one segment, each with the place of its result in the segment's arena. */
static void dump_segment(const plan *l, int i, buf *out)
{
    const stage *st = &l->stages[i];
    const segment *s = &st->seg;
    const program *p = l->p;
    char name[32];
    buf_printf(out, "\nsegment %d on %s: ops %u-%u, %s -> %s, arena of %" PRIu64 " bytes\n", i,
               device_name(st, name, sizeof name), s->op0, s->op1 - 1, s->in ? p->tensors[s->in].name : "tokens",
               s->out ? p->tensors[s->out].name : p->tensors[p->entries[ENTRY_HEAD].out].name, s->act_bytes);
    for (uint32_t k = s->op0, end = k; k < s->op1; k++) {
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
        const stage *s = &l->stages[i];
        uint64_t kv = segment_kv_bytes(l, &s->seg), held = s->seg.be->held_bytes(s->seg.on);
        char name[32], layers[32];
        snprintf(layers, sizeof layers, "%d-%d", s->layer0, s->layer1 - 1);
        buf_printf(out, "%-3d %-8s %-8s %12.1f %12.1f %12.1f %12.1f  %s\n", i, device_name(s, name, sizeof name),
                   layers, mebi(segment_bytes(&s->seg)), mebi(held - kv), mebi(kv), mebi(s->seg.act_bytes),
                   s->seg.out ? p->tensors[s->seg.out].name : "-");
    }
    for (int i = 0; i < l->n && dump; i++) dump_segment(l, i, out);
    return !out->bad;
}

static void add_rank(const plan *l, int i, json *ranks)
{
    const stage *s = &l->stages[i];
    uint64_t kv = segment_kv_bytes(l, &s->seg);
    json *rank = json_add_object(ranks, NULL);
    char name[32];
    json_add_str(rank, "device", device_name(s, name, sizeof name));
    json_add_int(rank, "group", i);
    json_add_int(rank, "rank", 0);
    json_add_int(rank, "ranks", 1);
    json *layers = json_add_array(rank, "layers");
    json_add_int(layers, NULL, s->layer0);
    json_add_int(layers, NULL, s->layer1);
    json_add_int(rank, "weight_bytes", (int64_t)segment_bytes(&s->seg));
    json_add_int(rank, "own_bytes", (int64_t)(s->seg.be->held_bytes(s->seg.on) - kv));
    json_add_int(rank, "kv_bytes", (int64_t)kv);
    json_add_int(rank, "step_bytes", (int64_t)s->seg.act_bytes);
}

void plan_json(const plan *l, json *root)
{
    json *ranks = json_add_array(root, "ranks"), *edges = json_add_array(root, "edges");
    for (int i = 0; i < l->n; i++) add_rank(l, i, ranks);
    for (int i = 0; i + 1 < l->n; i++) {
        json *edge = json_add_object(edges, NULL);
        json_add_int(edge, "from", i);
        json_add_int(edge, "to", i + 1);
        json_add_str(edge, "tensor", l->p->tensors[l->stages[i].seg.out].name);
        json_add_str(edge, "kind", "move");
    }
}
