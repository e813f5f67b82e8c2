/* build.c - see build.h. All types: embed, the block once per layer, final, logits of the rows that need them. An
 * encoder_decoder first has the encoder's embed, block and final over rows of its own; cross attention in every layer
 * reads their result. `final` works row by row: it is computed for all rows where texts are pooled (usual for
 * encoders), else only for rows that need logits. */
#include "models/compile/build.h"

#include "models/compile/formula.h"
#include "models/compile/spec_unused.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DIM_MAX = 1 << 20, POSITIONS_MAX = 1 << 30, ENC_LAYERS_MAX = 4096 };

int build_sources(config_sources *out, ckpt *c, const json *config, err *e)
{
    err side = {0};
    config_sources from = {.weights = c, .option = module_option};
    const json *own = ckpt_config(c);
    if (ckpt_describes_itself(c)) {
        from.own = own;
        from.source = ckpt_source(c);
        from.arch = ckpt_arch(c);
    } else {
        from.hf = own;
    }
    if (config) from.hf = config;
    from.generation = ckpt_side_json(c, "generation_config.json", &side);
    *out = from;
    return err_copy(e, &side);
}

int build_number(spec *s, config_eval *values, const char *key, int64_t otherwise, int64_t *out, err *e)
{
    const spec_row *r;
    value v;
    int rc = spec_value(s, "network", key, &r, e);
    if (!rc)
        rc = r ? config_value(values, r->value, OUTSIDE, NULL, r->where, &v, e)
               : config_name(values, key, OUTSIDE, &v, e);
    if (rc) return rc;
    *out = otherwise;
    if (v.kind == VALUE_NONE) return OK;
    if (v.kind != VALUE_NUMBER || !(v.number >= 0 && v.number <= POSITIONS_MAX) || v.number != floor(v.number))
        return err_set(e, ERR_SPEC, "%s: %s must be a whole number from 0 to %d", r ? r->where : s->file, key,
                       POSITIONS_MAX),
               config_blame(values, key, OUTSIDE, e);
    *out = (int64_t)v.number;
    return OK;
}

/* The text of a formula at a layer: of the last class that has one, else of [network]. */
static const spec_row *formula_of(const builder *b, const char *key)
{
    for (size_t k = b->s->n_class; k-- > 0;) {
        const spec_row *r = config_in_class(b->values, k, b->layer) ? spec_find(b->s, b->s->classes[k].section, key)
                                                                    : NULL;
        if (r) return r;
    }
    return spec_find(b->s, "network", key);
}

/* 0 without an error: the formula is the number 0, so there is no such part. */
static ref run_optional(builder *b, const char *key, const char *otherwise, ref x, const char *result)
{
    char where[300];
    const spec_row *r = formula_of(b, key);
    snprintf(where, sizeof where, "%s: %s", r ? r->where : b->s->file, key);
    return formula_build(b, r ? r->text : otherwise, where, x, result);
}

static ref run_formula(builder *b, const char *key, const char *otherwise, ref x, const char *result)
{
    if (!otherwise && !formula_of(b, key))
        return err_set(b->e, ERR_SPEC, "%s: [network] has no %s", b->s->file, key), 0;
    ref out = run_optional(b, key, otherwise, x, result);
    if (!out && !b->e->code) err_set(b->e, ERR_SPEC, "%s: %s is a number, not an activation", b->s->file, key);
    return out;
}

/* The encoder of an encoder-decoder. */
static int build_encoder(builder *b, int layers)
{
    program *p = b->prog;
    b->encoding = true;
    ref x = run_formula(b, "enc.embed", "token", 0, "embed");
    for (int i = 0; i < layers && x; i++) {
        b->layer = ENCODER + i;
        x = run_formula(b, "enc.block", NULL, x, "x");
    }
    b->layer = OUTSIDE;
    if (x) x = run_formula(b, "enc.final", "x", x, "final");
    if (!x) return b->e->code;
    b->encoding = false;
    b->memory = p->entries[ENTRY_ENC].out = x;
    p->entries[ENTRY_ENC].op1 = p->entries[ENTRY_DEC].op0 = p->n_op;
    return OK;
}

static int same_width(builder *b, const char *what, ref x)
{
    if (builder_width(b, x) == b->dim) return OK;
    return err_set(b->e, ERR_SPEC, "%s: %s gives rows of width %lld, dim is %lld", b->s->file, what,
                   (long long)builder_width(b, x), (long long)b->dim);
}

static bool output_is(const builder *b, const char *word)
{
    const char *output = spec_text(b->s, "network", "output");
    return output && strcmp(output, word) == 0;
}

/* Whether `final` is computed for all rows, not only those that need logits. */
static bool all_rows(const builder *b)
{
    return b->bidirectional || spec_find(b->s, "network", "pooled") || output_is(b, "scores") || output_is(b, "states");
}

static int build_layers(builder *b, int layers)
{
    program *p = b->prog;
    p->hidden = arena_array(&p->mem, (size_t)layers + 1, sizeof *p->hidden);
    if (!p->hidden) return err_memory(b->e, "the program");
    ref x = run_formula(b, "embed", "token", 0, "embed");
    if (!x || same_width(b, "embed", x)) return b->e->code;
    p->hidden[0] = x;
    for (b->layer = 0; b->layer < layers; b->layer++) {
        x = run_formula(b, "block", NULL, x, "x");
        if (!x || same_width(b, "block", x)) return b->e->code;
        p->hidden[b->layer + 1] = x;
    }
    b->layer = OUTSIDE;
    if (all_rows(b)) {
        x = run_formula(b, "final", "x", x, "final");
        if (!x) return b->e->code;
        p->hidden[layers] = x;
    }
    p->entries[ENTRY_DEC].op1 = p->n_op;
    p->entries[ENTRY_DEC].out = x;
    return OK;
}

/* Ids that the token table has a row for. */
static int64_t table_rows(const program *p)
{
    for (uint32_t i = 0; i < p->n_op; i++)
        if (p->ops[i].kind == OP_EMBED && p->ops[i].u.embed.by == EMBED_BY_TOKEN)
            return p->tensors[p->ops[i].in[0]].dim[0];
    return 0;
}

/* Whether a decoder without the head of its class has logits all the same: by a matrix of its own, or by its token
 * table where the configuration says so. */
static int has_logits(builder *b, bool *out)
{
    value tied;
    int rc = bind_has(b->bind, "head", OUTSIDE, out, b->e);
    if (!rc && !*out) rc = config_name(b->values, "tied", OUTSIDE, &tied, b->e);
    if (!rc && !*out) *out = tied.kind == VALUE_BOOL && tied.number != 0;
    return rc;
}

/* The formula whose rows are asked for by token: `logits`, `labels`, or NULL. */
static int head_formula(builder *b, const char **out)
{
    bool has = true;
    int rc = OK;
    const bool states = output_is(b, "states"), encoder = b->bidirectional && !b->uncausal;
    *out = output_is(b, "labels") ? "labels" : "logits";
    if (output_is(b, "scores") || (encoder && !formula_of(b, *out))) has = false;
    else if (b->uncausal ? !output_is(b, "labels") : states && !encoder && !b->memory) rc = has_logits(b, &has);
    if (!has) *out = NULL;
    if (!rc && output_is(b, "labels") && !formula_of(b, "labels"))
        return err_set(b->e, ERR_SPEC,
                       "%s: [network] has no formula `labels`, which classes for tokens and answers need", b->s->file);
    return rc;
}

static int build_head(builder *b)
{
    program *p = b->prog;
    ref x = p->entries[ENTRY_DEC].out, out;
    bool ready = all_rows(b);
    uint32_t op0 = p->n_op;
    const char *key;
    int rc = head_formula(b, &key);
    if (rc || !key) return p->vocab = table_rows(p), rc;
    op take = {.kind = OP_TAKE_OUT, .in = {x}};
    out = builder_op(b, take, "out", NULL, x, builder_width(b, x));
    if (out && !ready) p->hidden[p->n_layer] = out = run_formula(b, "final", "x", out, "final");
    if (out) out = b->bidirectional ? run_optional(b, key, "0", out, key) : run_formula(b, key, "head(x)", out, key);
    if (!out && !b->e->code && output_is(b, "labels"))
        err_set(b->e, ERR_SPEC, "%s: the class is one for tokens, but no labels of it are known here", b->s->file);
    if (!out && b->e->code) return b->e->code;
    if (out) {
        p->entries[ENTRY_HEAD].op0 = op0;
        p->entries[ENTRY_HEAD].op1 = p->n_op;
        p->entries[ENTRY_HEAD].in = x;
        p->entries[ENTRY_HEAD].out = out;
    }
    p->labels = out && output_is(b, "labels");
    p->vocab = out && !p->labels ? builder_width(b, out) : table_rows(p);
    return OK;
}

/* `pooled` or `scores`: a row for each text. */
static int build_pooled(builder *b, const char *key, int entry)
{
    program *p = b->prog;
    ref x = p->entries[ENTRY_DEC].out;
    uint32_t op0 = p->n_op;
    const bool scores = entry == ENTRY_SCORES, asked = scores && output_is(b, "scores");
    const bool encoder = b->bidirectional && !b->uncausal;
    if (asked && !formula_of(b, key))
        return err_set(b->e, ERR_SPEC, "%s: [network] has no formula `scores`, which classes for texts need",
                       b->s->file);
    if (!formula_of(b, key) || (scores && !asked && (!encoder || output_is(b, "labels")))) return OK;
    ref out = run_optional(b, key, NULL, x, key);
    if (!out && !b->e->code && asked)
        err_set(b->e, ERR_SPEC, "%s: the class is one for texts, but no scores of it are known here", b->s->file);
    if (!out) return b->e->code;
    if (p->tensors[out].axis != AXIS_SEQ)
        return err_set(b->e, ERR_SPEC, "%s: %s gives a row for each token: pool(x) makes one of them", b->s->file, key);
    p->entries[entry].op0 = op0;
    p->entries[entry].op1 = p->n_op;
    p->entries[entry].in = x;
    p->entries[entry].out = out;
    return OK;
}

static int read_output(const builder *b, err *e)
{
    static const char *const words[] = {"logits", "labels", "scores", "states"};
    const spec_row *r = spec_find(b->s, "network", "output");
    bool known = !r;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) known = known || strcmp(r->text, words[i]) == 0;
    return known ? OK
                 : err_set(e, ERR_SPEC, "%s: output '%s' is not one of logits, labels, scores, states", r->where,
                           r->text);
}

static int read_type(builder *b, bool *has_encoder, err *e)
{
    const spec_row *r = spec_find(b->s, "network", "type");
    value causal;
    int rc = config_name(b->values, "causal", OUTSIDE, &causal, e);
    if (rc) return rc;
    b->bidirectional = r && strcmp(r->text, "encoder_only") == 0;
    *has_encoder = r && strcmp(r->text, "encoder_decoder") == 0;
    b->uncausal = !b->bidirectional && !*has_encoder && causal.kind == VALUE_BOOL && causal.number == 0;
    if (b->uncausal) b->bidirectional = true;
    if (!r || b->bidirectional || *has_encoder || strcmp(r->text, "decoder_only") == 0) return read_output(b, e);
    return err_set(e, ERR_SPEC, "%s: type '%s' is not one of decoder_only, encoder_only, encoder_decoder", r->where,
                   r->text);
}

static int build_ops(builder *b, err *e)
{
    int64_t dim = 0, enc_layers = 0;
    bool has_encoder;
    int rc = read_type(b, &has_encoder, e), layers = config_layers(b->values);
    if (!rc) rc = build_number(b->s, b->values, "dim", 0, &dim, e);
    if (!rc && has_encoder) rc = build_number(b->s, b->values, "enc_layers", layers, &enc_layers, e);
    if (!rc && enc_layers > ENC_LAYERS_MAX)
        rc = err_set(e, ERR_SPEC, "%s: enc_layers is %lld: at most %d", b->s->file, (long long)enc_layers,
                     ENC_LAYERS_MAX);
    if (!rc && (dim < 1 || dim > DIM_MAX))
        rc = err_set(e, ERR_SPEC, "%s: dim is %lld: expected a width from 1 to %d", b->s->file, (long long)dim,
                     DIM_MAX);
    if (rc) return rc;
    b->dim = b->prog->dim = dim;
    b->prog->n_layer = layers;
    b->prog->n_enc = (int32_t)enc_layers;
    if (has_encoder && (rc = build_encoder(b, (int)enc_layers))) return rc;
    if ((rc = build_layers(b, layers)) || (rc = build_head(b))) return rc;
    if ((rc = build_pooled(b, "pooled", ENTRY_POOL)) || (rc = build_pooled(b, "scores", ENTRY_SCORES))) return rc;
    rc = spec_check_unused(b->s, e);
    if (!rc) rc = bind_finish(b->bind, e);
    return rc ? rc : program_finish(b->prog, e);
}

int build_program(program **out, spec *s, config_eval *values, const ckpt *c, const build_options *o, err *e)
{
    err own = {0};
    builder b = {.s = s,
                 .values = values,
                 .layer = OUTSIDE,
                 .ctx = o->ctx,
                 .act_f32 = o->act_f32,
                 .written = o->written,
                 .e = &own};
    b.prog = program_new(&own);
    int rc = b.prog ? bind_open(&b.bind, b.prog, s, values, c, o->policy, &own) : own.code;
    if (!rc) rc = build_ops(&b, &own);
    bind_close(b.bind);
    if (rc) {
        program_free(b.prog);
        return err_set(e, rc, "%s", own.msg);
    }
    *out = b.prog;
    return OK;
}
