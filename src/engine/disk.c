/* disk.c - whether texts of this engine may go on from pages on disk, and what those pages belong to;
 * cache/disk_cache.h keeps them. */
#include "engine/engine_state.h"
#include "engine/fingerprint.h"

#include "base/log.h"
#include "plan/plan_pages.h"

/* What pages of this engine belong to. */
static int find_shape(engine *g, page_shape *out, err *e)
{
    fingerprint f;
    buf text = {0};
    out->bytes[GROUP_MAX] = plan_slot_bytes(g->plan);
    if (!plan_page_bytes(g->plan, out->bytes))
        return err_set(e, ERR_USAGE, "nodes do not give pages to a disk: leave --cache-dir and --session out");
    int rc = engine_fingerprint(g, &f, e);
    if (rc) return rc;
    buf_printf(&text, "model %s arithmetic %s\n", f.model, f.arithmetic);
    plan_page_layout(g->plan, &text);
    if (text.bad) rc = err_memory(e, "pages on disk");
    else sha256_of(text.p, text.n, out->made_for);
    buf_free(&text);
    return rc;
}

static int open_disk(engine *g, err *e)
{
    page_shape of;
    const int rc = find_shape(g, &of, e);
    return rc ? rc : disk_cache_open(&g->kv, &of, g->info.ctx, e);
}

static void wake_engine(void *g) { engine_wake(g); }

/* Whether texts of this model share pages, and go on after them. */
static bool can_keep(const engine *g)
{
    return g->info.generates && !g->info.n_enc_vocab && g->prog->n_rope <= PAGE_TOKENS / 2;
}

int engine_keep_folder(engine *g, const char *dir, int64_t bytes, err *e)
{
    if (!can_keep(g)) {
        log_line(LOG_WARN, "--cache-dir: this model does not go on from pages alone, so nothing is kept");
        return OK;
    }
    const int rc = open_disk(g, e);
    return rc ? rc : disk_cache_folder(&g->kv, dir, bytes, wake_engine, g, e);
}

int engine_keep_file(engine *g, const char *path, err *e)
{
    if (!can_keep(g))
        return err_set(e, ERR_USAGE, "--session: this model does not go on from pages alone: leave it out");
    const int rc = open_disk(g, e);
    return rc ? rc : disk_cache_file(&g->kv, path, e);
}

int engine_session_save(engine *g, const char *path, err *e)
{
    engine_end_steps(g);
    return disk_cache_save(&g->kv, g->plan, path, e);
}
