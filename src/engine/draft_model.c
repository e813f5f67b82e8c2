/* draft_model.c - see draft_model.h. */
#include "engine/draft_model.h"
#include "engine/engine_state.h"
#include "engine/fingerprint.h"

#include "base/mem.h"
#include "plan/plan_memory.h"
#include "plan/plan_show.h"
#include "text/tokenizer_equal.h"

#include <string.h>

/* Models without tokenizers may have the same one. With one the small model may lack the last rows, which fill up. */
static bool same_vocabulary(const engine *a, const engine *b)
{
    if (!a->tok && !b->tok) return a->info.n_vocab == b->info.n_vocab;
    return a->tok && b->tok && tokenizer_equal(a->tok, b->tok, true);
}

/* The first device that has the head. */
static int device_of_head(const plan *l)
{
    int i = plan_devices(l) - 1;
    while (i > 0 && plan_group_of(l, i - 1) == plan_group_of(l, i)) i--;
    return i;
}

/* What pages of g leave of the memory of a device here: at least one text has its own. */
static void leave_room(const engine *g, int device, engine_options *small)
{
    const dtype kv = engine_kv_type(g);
    plan_room room;
    for (int m = 0; plan_memory(g->plan, m, kv, kv, &room); m++) {
        if (!plan_memory_has(g->plan, m, device)) continue;
        small->beside = room.taken + 2 * (room.slot + DRAFT_MAX * room.slot_row);
        for (uint32_t i = 0; i < g->prog->n_group; i++) {
            small->beside_page += room.page[i];
            small->beside += room.page[i] * (uint64_t)pages_needed(g->info.ctx, g->prog->group_window[i],
                                                                   g->chunk * plan_in_flight(g->plan));
        }
    }
}

int draft_model_open(engine *g, err *e)
{
    const engine_options *o = &g->options;
    const bool is_auto = !o->devices || !strcmp(o->devices, "auto");
    char name[PLAN_DEVICE_NAME];
    engine_options small = {.model = o->draft,
                            .act = o->act,
                            .choices.exact = o->choices.exact,
                            .isa = o->isa,
                            .no_gpu = o->no_gpu,
                            .no_kv_offload = o->no_kv_offload,
                            .kv_host = o->kv_host,
                            .threads = o->threads,
                            .verify = o->verify,
                            .more_backends = o->more_backends,
                            .ctx = g->info.ctx,
                            .max_batch = o->max_batch,
                            .cublas = o->cublas,
                            .device_timeout = o->device_timeout,
                            .guesses = true};
    engine *d;
    if (!o->draft || g->guesses.kind) return OK;
    const int head = device_of_head(g->plan);
    const bool here = !plan_node(g->plan, head);
    plan_device_name(g->plan, head, name);
    if (here && is_auto) small.gpu = name;
    else if (here) small.devices = name;
    if (here) leave_room(g, head, &small);
    if (engine_open(&d, &small, e)) return err_wrap(e, "--draft %s", o->draft);
    g->guesses.kind = &draft_model;
    g->guesses.self = d;
    return OK;
}

int draft_model_check(const engine *g, err *e)
{
    const engine *d = g->guesses.self;
    const char *wrong = NULL;
    if (g->guesses.kind != &draft_model) return OK;
    if (!d->info.generates || d->info.n_enc_vocab || g->info.n_enc_vocab)
        wrong = "only decoders can guess, for decoders";
    else if (!same_vocabulary(d, g)) wrong = "its vocabulary is another one";
    else if (d->info.n_vocab > g->info.n_vocab) wrong = "it has logits for more tokens than the model";
    return wrong ? err_set(e, ERR_USAGE, "--draft %s: %s", g->options.draft, wrong) : OK;
}

/* None where the text does not fit the small context. */
static int draft_add_session(void *self, session *s, grammar *form, err *e)
{
    engine *small = self;
    query q = s->q;
    if (q.pooled || s->beams || (int64_t)q.n_ids >= small->info.ctx) return OK;
    q.n_logprobs = -1;
    q.prompt_logprobs = false;
    q.on_token = NULL;
    q.max_tokens = s->room;
    q.unshared = true;
    q.constraint = form;
    session *t;
    int rc = session_new(&t, &q, small->prog, small->info.ctx, e);
    if (rc) return rc;
    s->draft.model_session = t;
    t->best = s->best;
    if (s->draft.rule != GUESS_EXACT || s->best == 1) return OK;
    s->draft.chances = t->draft.chances = mem_array(DRAFT_MAX, sizeof *t->draft.chances);
    return t->draft.chances ? OK : err_memory(e, "guesses");
}

static void draft_drop_session(void *self, session *s)
{
    if (s->draft.model_session) session_drop_cache(self, s->draft.model_session);
}

/* The model_session gets the session's text; what it has read of another one counts no more. False: it cannot guess
 * now. */
static bool follow_target(engine *g, session *s)
{
    session *t = s->draft.model_session;
    if (!t || s->n_ids + s->draft.n > t->n_prompt + t->room) return false;
    if (!t->admitted && session_admit(g, t, &(err){0})) return false;
    int64_t same = t->draft.agreed < t->text.n_past ? t->draft.agreed : t->text.n_past;
    while (same < t->text.n_past && same < s->n_ids && t->ids[same] == s->ids[same]) same++;
    for (int64_t i = same; i < s->n_ids; i++)
        if (s->ids[i] >= g->info.n_vocab) return false;
    memcpy(t->ids + same, s->ids + same, (size_t)(s->n_ids - same) * sizeof *t->ids);
    if (same == s->n_ids) same--; /* its logits are wanted */
    if (text_take_back(&g->kv, &t->text, t->text.n_past - same)) t->text.n_past = t->text.n_sent = same;
    else session_drop_cache(g, t);
    if (!t->admitted && session_admit(g, t, &(err){0})) return false;
    const int64_t known = t->draft.agreed > s->n_prompt ? t->draft.agreed - s->n_prompt
                                                        : 0; /* the state after the last is new */
    if (t->states)
        memcpy(t->states + known, s->states + known, (size_t)(s->n_ids - s->n_prompt - known + 1) * sizeof *s->states);
    t->n_ids = t->draft.agreed = s->n_ids;
    text_leave_windows(&g->kv, &t->text);
    return true;
}

/* Adds what a model_session has not read yet, at most a chunk. */
static void add_rows(engine *g, batch *b, session *t, int64_t *left)
{
    const int64_t rest = t->n_ids - t->text.n_sent, rows = rest < *left ? rest : *left;
    const int64_t fit = rows > 0 ? text_take_pages(&g->kv, &t->text, t->text.n_sent + rows) - t->text.n_sent : 0;
    if (fit > 0) *left -= batch_add(b, t, (int)fit, 0);
}

/* Takes what a step has drawn; one that has read all of its text makes a guess. */
static void take_guesses(engine *g, const batch *b)
{
    draws_run(g->draws, &g->info, b, g->plan);
    for (int32_t k = 0, i = 0; k < b->st.n_seq; k++) {
        session *t = b->who[k];
        t->text.n_past = t->text.n_sent;
        if (t->text.n_past < t->n_ids) continue;
        const int32_t id = t->best == 1 ? plan_best(g->plan, i)->id : t->drawn[0];
        i++;
        if (id >= 0 && !session_ends_with(t, &g->info, id)) t->ids[t->n_ids++] = id;
    }
}

static bool guess_once(engine *g, session **who, int n)
{
    batch *b = steps_next(&g->steps);
    int64_t left = g->chunk;
    int rc;
    for (int i = 0; i < n; i++) {
        session *s = who[i], *t = s->draft.model_session;
        if (s->draft.n && t->n_ids > t->text.n_sent && t->n_ids - s->n_ids < s->draft.n) add_rows(g, b, t, &left);
    }
    if (!steps_send(&g->steps, &g->kv, g->plan)) return false;
    err why = {0};
    const batch *done = steps_collect(&g->steps, g->plan, &rc, &(err){0});
    if (!rc && (rc = damage_check(g, &why))) damage_begin(g, &why);
    if (!rc) take_guesses(g, done);
    for (int i = 0; rc && i < done->st.n_seq; i++) session_drop_cache(g, done->who[i]);
    return !rc;
}

static void model_guess(void *self, session **who, int n)
{
    engine *g = self;
    int most = 0;
    if (g->harm.active) damage_go_on(g);
    for (int i = 0; i < n; i++) {
        if (g->harm.active || !follow_target(g, who[i])) who[i]->draft.n = 0;
        if (who[i]->draft.n > most) most = who[i]->draft.n;
    }
    for (int k = 0; k < most && guess_once(g, who, n); k++) {} /* where there is much to read, the guesses come later */
    for (int i = 0; i < n; i++) {
        session *s = who[i];
        const int made = s->draft.n ? (int)(s->draft.model_session->n_ids - s->n_ids) : 0;
        memcpy(s->ids + s->n_ids, made ? s->draft.model_session->ids + s->n_ids : s->ids,
               (size_t)made * sizeof *s->ids);
        s->draft.n = made;
    }
}

static int draft_hash(void *self, err *e) { return engine_hash_weights(self, e); }

static void close_small(void *self) { engine_close(self); }

const draft_kind draft_model = {.name = "model",
                                .guess = model_guess,
                                .add = draft_add_session,
                                .drop = draft_drop_session,
                                .hash = draft_hash,
                                .close = close_small};
