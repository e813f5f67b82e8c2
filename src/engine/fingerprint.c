/* fingerprint.c - see fingerprint.h. */
#include "engine/fingerprint.h"

#include "base/mem.h"
#include "base/pool.h"
#include "core/arithmetic.h"
#include "engine/engine_state.h"
#include "io/contents.h"
#include "io/contents_cache.h"

#include <stdio.h>

/* Who adds what with whom, where that changes bits: groups, ranks and their shares. Which machine has them does not. */
static void add_division(const engine *g, buf *out)
{
    const plan *l = g->plan;
    const char *reduce = plan_reduces(l), *wire = plan_wire(l);
    if (!reduce && !wire) return;
    static const struct {
        const char *name, *key;
    } told[] = {
        {"reduce", "reduce"}, {"wire", "wire"}, {"group", "codec_group"}, {"experts", "experts"}, {"ends", "ends"}};
    plan_choices c = plan_asked(l)->choices;
    if (!reduce) c.reduce = REDUCE_EXACT;
    if (!wire) c.wire = WIRE_F32;
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        buf_printf(out, "%s%s ", i ? " " : "", told[i].name);
        plan_choice_tell(out, &c, told[i].key);
    }
    buf_byte(out, '\n');
    for (int i = 0; i < plan_devices(l); i++) buf_printf(out, "%d %.17g\n", plan_group_of(l, i), plan_share_of(l, i));
}

static int digest_arithmetic(const engine *g, fingerprint *out, err *e)
{
    const plan_options *asked = plan_asked(g->plan);
    uint8_t digest[SHA256_BYTES];
    buf text = {0};
    buf_printf(&text, "arithmetic %d cache %s %s act %s\n", ARITHMETIC, dtype_info[g->cache.k_type].name,
               dtype_info[g->cache.v_type].name, asked->choices.act_f32 ? "f32" : "q8");
    if (asked->choices.exact == EXACT_OFF) buf_printf(&text, "kernels %s\n", g->info.isa ? g->info.isa : "-");
    add_division(g, &text);
    int rc = OK;
    if (text.bad) rc = err_memory(e, "a fingerprint");
    if (!rc) sha256_of(text.p, text.n, digest);
    if (!rc) sha256_hex(digest, (sizeof out->arithmetic - 1) / 2, out->arithmetic);
    buf_free(&text);
    return rc;
}

int engine_hash_weights(engine *g, err *e)
{
    char *cache = contents_cache_folder();
    contents *held = &g->harm.held;
    const int rc = held->tensor ? OK : contents_hash(held, g->model->weights, cache, pool_default_threads(), e);
    mem_free(cache);
    return rc;
}

static int digest_model(engine *g, fingerprint *out, err *e)
{
    uint8_t identity[SHA256_BYTES], digest[SHA256_BYTES];
    int rc = engine_hash_weights(g, e);
    if (!rc && g->guesses.kind && g->guesses.kind->hash) rc = g->guesses.kind->hash(g->guesses.self, e);
    if (!rc) {
        sha256 s;
        program_identity(g->prog, (span){0}, identity);
        sha256_init(&s);
        sha256_add(&s, identity, sizeof identity);
        sha256_add(&s, g->harm.held.all, sizeof g->harm.held.all);
        sha256_end(&s, digest);
        sha256_hex(digest, (sizeof out->model - 1) / 2, out->model);
    }
    return rc;
}

int engine_fingerprint(engine *g, fingerprint *out, err *e)
{
    snprintf(out->kv, sizeof out->kv, "%s", dtype_info[g->kv_type].name);
    out->exact = plan_asked(g->plan)->choices.exact == EXACT_ON && (!g->guesses.kind || g->guesses.rule == GUESS_SAME);
    int rc = digest_arithmetic(g, out, e);
    return rc ? rc : digest_model(g, out, e);
}
