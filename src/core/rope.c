/* rope.c - rotary frequencies of every scaling, and the tables of cosines and sines made from them.
 *
 * The judge is transformers (modeling_rope_utils): frequencies are float32 and every step of their computation rounds
 * where torch rounds; angle = float(position) * frequency in float32. Cosine and sine are computed in double
 * (base/fmath.h) and rounded once: tables are equal on every machine. */
#include "core/rope.h"
#include "base/fmath.h"
#include "base/mem.h"

#include <math.h>

enum { VARIANTS_MAX = 64, POSITIONS_MAX = 1 << 24 };

/* theta ^ (2i / dims) in float32. */
static float wave(float theta, int i, int dims)
{
    return (float)pow((double)theta, (double)((float)(2 * i) / (float)dims));
}

static double ratio(const rope_params *p)
{
    return p->factor != 0 ? p->factor : (double)p->max_positions / (double)p->original;
}

static void freq_plain(const rope_params *p, float theta, float *inv)
{
    for (int i = 0; i < p->dims / 2; i++) inv[i] = 1.0f / wave(theta, i, p->dims);
}

/* theta grows with the length beyond what the model was trained on. */
static void freq_dynamic(const rope_params *p, int length, float *inv)
{
    double exponent = (double)p->dims / (double)(p->dims - 2);
    float theta = (float)p->theta;
    if (length > p->max_positions) {
        float stretch = (float)p->factor * (float)length / (float)p->max_positions - (float)(p->factor - 1);
        theta *= (float)pow((double)stretch, (double)(float)exponent);
    }
    freq_plain(p, theta, inv);
}

/* Fast dimensions keep their frequency, slow ones are interpolated, a ramp in between. */
static void freq_yarn(const rope_params *p, float *inv)
{
    static const double pi = 3.14159265358979323846;
    int half = p->dims / 2;
    double factor = ratio(p), rot[2] = {p->beta_fast != 0 ? p->beta_fast : 32, p->beta_slow != 0 ? p->beta_slow : 1},
           at[2];
    for (int k = 0; k < 2; k++) at[k] = p->dims * log(p->original / (rot[k] * 2 * pi)) / (2 * log(p->theta));
    if (p->truncate) {
        at[0] = floor(at[0]);
        at[1] = ceil(at[1]);
    }
    double low = at[0] > 0 ? at[0] : 0, high = at[1] < p->dims - 1 ? at[1] : p->dims - 1;
    if (low == high) high += 0.001;
    for (int i = 0; i < half; i++) {
        float w = wave((float)p->theta, i, p->dims);
        float ramp = ((float)i - (float)low) / (float)(high - low);
        ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
        float keep = 1.0f - ramp;
        inv[i] = 1.0f / ((float)factor * w) * (1.0f - keep) + 1.0f / w * keep;
    }
}

static void freq_llama3(const rope_params *p, float *inv)
{
    static const double pi = 3.14159265358979323846;
    float factor = (float)p->factor, low = (float)p->low_freq, old = (float)p->original;
    float longest = (float)(p->original / p->low_freq), shortest = (float)(p->original / p->high_freq);
    for (int i = 0; i < p->dims / 2; i++) {
        float f = 1.0f / wave((float)p->theta, i, p->dims), length = (float)(2 * pi) / f;
        if (length > longest) {
            inv[i] = f / factor;
        } else if (length < shortest) {
            inv[i] = f;
        } else {
            float smooth = (old / length - low) / (float)(p->high_freq - p->low_freq);
            inv[i] = (1.0f - smooth) * f / factor + smooth * f;
        }
    }
}

static void freq_longrope(const rope_params *p, int length, float *inv)
{
    const float *f = length > p->original ? p->long_factor : p->short_factor;
    for (int i = 0; i < p->dims / 2; i++) inv[i] = 1.0f / (f[i] * wave((float)p->theta, i, p->dims));
}

static void frequencies(const rope_params *p, int length, float *inv)
{
    switch ((rope_scaling)p->scaling) {
    case ROPE_LINEAR:
        freq_plain(p, (float)p->theta, inv);
        for (int i = 0; i < p->dims / 2; i++) inv[i] /= (float)p->factor;
        break;
    case ROPE_DYNAMIC: freq_dynamic(p, length, inv); break;
    case ROPE_YARN: freq_yarn(p, inv); break;
    case ROPE_LLAMA3: freq_llama3(p, inv); break;
    case ROPE_LONGROPE: freq_longrope(p, length, inv); break;
    case ROPE_NONE:
    case ROPE_SCALING_COUNT: freq_plain(p, (float)p->theta, inv); break;
    }
}

static double yarn_mscale(double factor, double mscale) { return factor <= 1 ? 1.0 : 0.1 * mscale * log(factor) + 1.0; }

/* Cosines and sines are multiplied by this: queries and keys both carry it, so scores carry its square. */
static float attention_factor(const rope_params *p)
{
    double f = 1;
    if (p->scaling != ROPE_YARN && p->scaling != ROPE_LONGROPE) return 1;
    if (p->attention_factor != 0) return (float)p->attention_factor;
    double factor = ratio(p);
    if (p->scaling == ROPE_LONGROPE) f = factor <= 1 ? 1.0 : sqrt(1 + log(factor) / log(p->original));
    else if (p->mscale != 0 && p->mscale_all_dim != 0)
        f = yarn_mscale(factor, p->mscale) / yarn_mscale(factor, p->mscale_all_dim);
    else f = yarn_mscale(factor, 1);
    return (float)f;
}

void rope_frequencies(const rope_params *p, int length, float *inv, float *scale)
{
    frequencies(p, length, inv);
    *scale = attention_factor(p);
}

/* Makes the table of variant v for positions below `positions`. */
static int build(rope_set *r, uint32_t v, int length, int positions, err *e)
{
    float inv[ROPE_DIMS_MAX / 2], scale;
    int half = r->params.dims / 2;
    size_t n = (size_t)positions * (size_t)half;
    rope_variant *to = &r->variant[v];
    to->bytes = n * 2 * sizeof *to->table;
    to->table = mem_map(to->bytes);
    if (!to->table) return err_set(e, ERR_MEMORY, "out of memory for a rope table of %d positions", positions);
    to->length = length;
    to->users = 0;
    to->serial = ++r->serial;
    rope_frequencies(&r->params, length, inv, &scale);
    for (int pos = 0; pos < positions; pos++) {
        float *c = to->table + (size_t)pos * (size_t)half, *s = c + n;
        for (int i = 0; i < half; i++) {
            double sine, cosine;
            fm_sincos((double)((float)pos * inv[i]), &sine, &cosine);
            c[i] = (float)cosine * scale;
            s[i] = (float)sine * scale;
        }
    }
    return 0;
}

static int check_params(const rope_params *p, int ctx, err *e)
{
    if (p->dims < 2 || p->dims % 2 || p->dims > ROPE_DIMS_MAX)
        return err_set(
            e, ERR_SPEC,
            "rope: %d rotated dimensions (partial_rotary_factor, rotary_dim, rope.dimension_count); expected an even "
            "number up to %d",
            p->dims, ROPE_DIMS_MAX);
    if (ctx < 1 || ctx > POSITIONS_MAX) return err_set(e, ERR_SPEC, "rope: a table of %d positions", ctx);
    if (!(p->theta > 0) || !isfinite(p->theta))
        return err_set(e, ERR_SPEC, "rope: theta (rope_theta, rope.freq_base) is %g", p->theta);
    bool derived = p->scaling == ROPE_YARN || p->scaling == ROPE_LONGROPE; /* factor may follow from the lengths */
    if (p->scaling != ROPE_NONE && !(p->factor > 0 && isfinite(p->factor)) &&
        !(derived && p->factor == 0 && p->max_positions > 0))
        return err_set(e, ERR_SPEC, "rope_factor (factor, rope.scaling.factor) is %g", p->factor);
    if ((derived || p->scaling == ROPE_LLAMA3) && p->original < 1)
        return err_set(e, ERR_SPEC,
                       "rope: this scaling needs the original maximum length (original_max_position_embeddings, "
                       "max_position_embeddings)");
    if (p->scaling == ROPE_YARN && p->theta == 1) return err_set(e, ERR_SPEC, "rope: yarn needs theta other than 1");
    if (p->scaling == ROPE_LLAMA3 && !(p->low_freq > 0 && p->high_freq > p->low_freq))
        return err_set(e, ERR_SPEC, "rope: low and high frequency factors are %g and %g", p->low_freq, p->high_freq);
    if (p->scaling == ROPE_DYNAMIC && (p->max_positions < 1 || p->dims < 4))
        return err_set(e, ERR_SPEC, "rope: dynamic scaling needs the maximum length and 4 or more dimensions");
    if (p->scaling == ROPE_LONGROPE) {
        if (!p->short_factor || !p->long_factor)
            return err_set(e, ERR_SPEC, "rope: longrope needs short and long factors");
        for (int i = 0; i < p->dims / 2; i++)
            if (!(p->short_factor[i] > 0) || !(p->long_factor[i] > 0))
                return err_set(e, ERR_SPEC, "rope: factor %d of longrope is not positive", i);
    }
    if (p->scaling < 0 || p->scaling >= ROPE_SCALING_COUNT) return err_set(e, ERR_SPEC, "rope: unknown scaling");
    return 0;
}

int rope_init(rope_set *r, const rope_params *p, int ctx, err *e)
{
    *r = (rope_set){.params = *p, .ctx = ctx};
    int rc = check_params(p, ctx, e);
    if (rc) return rc;
    r->variant = mem_zero(VARIANTS_MAX, sizeof *r->variant);
    if (!r->variant) return err_memory(e, "rope tables");
    r->cap = VARIANTS_MAX;
    return 0;
}

int rope_fill(rope_set *r, err *e)
{
    if (r->n_variant) return 0;
    int rc = build(r, 0, 0, r->ctx, e);
    if (!rc) r->n_variant = 1;
    return rc;
}

void rope_close(rope_set *r)
{
    for (uint32_t i = 0; r->variant && i < r->cap; i++) mem_unmap(r->variant[i].table, r->variant[i].bytes);
    mem_free(r->variant);
    *r = (rope_set){0};
}

int rope_admit(rope_set *r, int length, err *e)
{
    const rope_params *p = &r->params;
    bool dynamic = p->scaling == ROPE_DYNAMIC && length > p->max_positions;
    bool extended = p->scaling == ROPE_LONGROPE && length > p->original;
    uint32_t v = 0;
    int rc = rope_fill(r, e);
    if (rc) return rc;
    if (dynamic || extended) {
        int key = dynamic ? length : INT32_MAX; /* longrope has one long variant */
        v = 1;
        while (v < r->n_variant && r->variant[v].length != key) v++;
        if (v == r->n_variant) {
            for (v = 1; v < r->n_variant && r->variant[v].users; v++) {} /* reuse what nobody holds */
            if (v == r->cap)
                return err_set(e, ERR_LIMIT, "more than %u different lengths with dynamic rope at once", r->cap - 1);
            mem_unmap(r->variant[v].table, r->variant[v].bytes);
            r->variant[v] = (rope_variant){0};
            rc = build(r, v, key, dynamic && length < r->ctx ? length : r->ctx, e);
            if (rc) return rc;
            if (v == r->n_variant) r->n_variant++;
        }
    }
    if (v) r->variant[v].users++; /* the first is never taken away */
    return (int)v;
}

void rope_release(rope_set *r, int variant)
{
    if (variant > 0 && (uint32_t)variant < r->n_variant && r->variant[variant].users) r->variant[variant].users--;
}

int rope_length(const rope_set *r, int variant) { return variant > 0 ? r->variant[variant].length : 0; }

uint32_t rope_serial(const rope_set *r, int variant) { return r->variant[variant].serial; }
