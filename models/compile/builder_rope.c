/* builder_rope.c - see builder_rope.h. */
#include "models/compile/builder_rope.h"

#include <math.h>
#include <string.h>

static int scaling_of(const char *name)
{
    static const char *const names[] = {
#define X(id, name, doc) name,
        ROPE_SCALING_LIST(X)
#undef X
    };
    for (int i = 0; i < ROPE_SCALING_COUNT; i++)
        if (strcmp(names[i], name) == 0) return i;
    return ROPE_NONE;
}

/* Divisors that let only the first frequencies turn, those of a linear scaling included. NULL on error. */
static const float *part_of(builder *b, const rope_options *o, int dims, size_t *n)
{
    float *by = arena_array(&b->prog->mem, (size_t)dims / 2 + 1, sizeof *by);
    if (!by) return err_memory(b->e, "the program"), NULL;
    const float still = 1e30f; /* as GGUF says it */
    const int turning = (int)floor(o->rope_share * dims / 2);
    const double factor = scaling_of(o->rope_type) == ROPE_LINEAR ? o->rope_factor : 1;
    for (int i = 0; i < dims / 2; i++) by[i] = i < turning ? (float)factor : still;
    *n = (size_t)dims / 2;
    return by;
}

/* A factor of cosines and sines that their scaling would leave out. */
static bool factor_fits(builder *b, const call *c, const rope_options *o)
{
    const rope_scaling scaling = scaling_of(o->rope_type);
    const double f = o->rope_attention_factor;
    if (scaling == ROPE_YARN || scaling == ROPE_LONGROPE || f == 0 || f == 1) return true;
    err_set(b->e, ERR_SPEC,
            "%s: rope_attention_factor (attention_factor, rope.scaling.attn_factor) is %g: it goes with rope_type yarn "
            "or longrope, not %s",
            c->where, f, o->rope_type);
    return false;
}

int builder_rope_table(builder *b, const call *c, const rope_options *o, int dims)
{
    size_t n_short, n_long, n_freqs;
    const float *shorts = builder_list(b, c, "rope_short", &n_short);
    const float *longs = shorts ? builder_list(b, c, "rope_long", &n_long) : NULL;
    const float *freqs = longs ? builder_list(b, c, "rope_freqs", &n_freqs) : NULL;
    if (freqs && !n_freqs && o->rope_share != 1) {
        if (scaling_of(o->rope_type) != ROPE_NONE && scaling_of(o->rope_type) != ROPE_LINEAR)
            return err_set(b->e, ERR_SPEC, "%s: rope_share goes with rope_type none or linear", c->where);
        freqs = part_of(b, o, dims, &n_freqs);
    }
    if (!freqs || !factor_fits(b, c, o)) return -1;
    rope_params p = {.scaling = scaling_of(o->rope_type),
                     .dims = dims,
                     .theta = o->theta,
                     .factor = o->rope_factor,
                     .original = (int)o->rope_original,
                     .max_positions = (int)o->rope_positions,
                     .low_freq = o->rope_low_freq,
                     .high_freq = o->rope_high_freq,
                     .beta_fast = o->rope_beta_fast,
                     .beta_slow = o->rope_beta_slow,
                     .mscale = o->rope_mscale,
                     .mscale_all_dim = o->rope_mscale_all,
                     .attention_factor = o->rope_attention_factor,
                     .truncate = o->rope_truncate};
    if (n_freqs) { /* longrope whose short and long factors are the same */
        p.scaling = ROPE_LONGROPE;
        p.attention_factor = 1;
        shorts = longs = freqs;
        n_short = n_long = n_freqs;
    }
    if (p.scaling == ROPE_LONGROPE) {
        if (n_short != (size_t)dims / 2 || n_long != (size_t)dims / 2)
            return err_set(b->e, ERR_SPEC, "%s: longrope needs %d short and long factors, got %zu and %zu", c->where,
                           dims / 2, n_short, n_long);
        p.short_factor = shorts;
        p.long_factor = longs;
    }
    int table = program_rope(b->prog, &p, b->ctx, b->e);
    if (table < 0) err_wrap(b->e, "%s", c->where);
    return table;
}

ref builder_rotate(builder *b, const call *c, const rope_options *o, const char *part, ref x, int table, int head_dim)
{
    int dims = b->prog->ropes[table].params.dims;
    int style = strcmp(o->rope, "neox") == 0 ? ROPE_HALVES : ROPE_NEIGHBOURS;
    op r = {.kind = OP_ROPE, .in = {x}, .u.rope = {dims, style, head_dim, table}};
    return builder_op(b, r, c->path, part, x, builder_width(b, x));
}
