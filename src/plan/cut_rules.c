/* cut_rules.c - see cut_rules.h. */
#include "plan/cut_rules.h"

/* Without a default: an op that has no row does not compile. */
static cut_rule row_of(const program *p, const op *o)
{
    switch ((op_kind)o->kind) {
#define X(id, result, a, b, c, d, heads)                                                                               \
    case OP_##id: return (cut_rule){CUT_##result, {TAKE_##a, TAKE_##b, TAKE_##c, TAKE_##d}, heads};
        CUT_LIST(X)
#undef X
    case OP_COUNT: break;
    }
    return (cut_rule){CUT_WHOLE, {TAKE_WHOLE, TAKE_WHOLE, TAKE_WHOLE, TAKE_WHOLE}, 0};
}

/* What TAKE_BESIDE means for this operand. */
static uint8_t beside(const program *p, const op *o, ref t)
{
    if (p->tensors[t].kind != TENSOR_ACT) return TAKE_VECTOR;
    return cut_width(p, t) == cut_width(p, o->out) ? TAKE_ALIKE : TAKE_COPIED;
}

cut_rule cut_rule_of(const program *p, const op *o)
{
    cut_rule r = row_of(p, o);
    const bool whole = r.heads == 1;
    if (whole && r.result == CUT_ALIKE) r.result = CUT_WHOLE;
    for (int k = 0; k < 4; k++) {
        const tensor *t = &p->tensors[o->in[k]];
        if (!o->in[k]) r.in[k] = TAKE_NOTHING;
        if (r.in[k] == TAKE_BESIDE) r.in[k] = beside(p, o, o->in[k]);
        if (o->kind == OP_ATTN && o->u.attn.bias == BIAS_PLACES && o->in[k])
            r.in[k] = k == ATTN_TABLE ? TAKE_ALL : TAKE_ALIKE;
        if (r.in[k] == TAKE_BUCKETS && o->u.attn.bias != BIAS_BUCKETS) r.in[k] = TAKE_VECTOR;
        if (r.in[k] == TAKE_KEYS) r.in[k] = cut_by_keys(o) ? TAKE_ALIKE : TAKE_WHOLE;
        if (r.in[k] == TAKE_OWNED && (o->u.embed.by != EMBED_BY_TOKEN || t->kind != TENSOR_WEIGHT)) r.in[k] = TAKE_ALL;
        if (r.in[k] == TAKE_VECTOR && o->kind == OP_NORM && tensor_count(t) == o->u.norm.width) r.in[k] = TAKE_ALL;
        if (!whole) continue;
        if (r.in[k] == TAKE_ALIKE) r.in[k] = TAKE_WHOLE;
        else if (r.in[k] == TAKE_STATE) r.in[k] = TAKE_COPIED;
        else if (t->kind != TENSOR_ACT) r.in[k] = TAKE_ALL;
    }
    return r;
}
