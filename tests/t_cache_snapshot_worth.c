/* t_cache_snapshot_worth.c - snapshots where there is memory for few of them: ten chats of eight turns compute at most
 * 1.15 of the tokens that they would with all snapshots of all texts, whose number is counted here from the texts
 * alone. Chats come in turn or as chance has it, with a common beginning or without, keep what was answered, or drop
 * the first half of it as chats with reasoning do; and some ask again. On stages several steps of a prompt are under
 * way at once; the answers are the same. */
#include "text_rig.h"

#include "base/fnv.h"

#include <math.h>

enum { CTX = 4096, CHATS = 10, TURNS = 8, ROOM = 12, STOP = SNAPSHOT_TOKENS, TEXTS = CHATS * TURNS * 2 };

/* How chats come. */
typedef struct custom {
    const char *name;
    int common;              /* ids that all begin with */
    bool mixed, drops, asks; /* in any order; drops half of each answer; every fifth turn is asked twice */
} custom;

static const custom customs[] = {{"in turn", 0},
                                 {"a common beginning", 600, .mixed = true},
                                 {"answers shortened", 600, .drops = true},
                                 {"answers shortened, in any order", 0, .mixed = true, .drops = true},
                                 {"asked again", 600, .mixed = true, .asks = true}};

/* All that was computed so far. */
static int32_t seen[TEXTS][CTX];
static int64_t seen_n[TEXTS];
static int n_seen;
static uint64_t said; /* a hash of all tokens and their log-probabilities */

typedef struct chat {
    int32_t ids[CTX], answer[CTX];
    int n, n_answer, turn;
    finish_reason finish;
    int64_t cached;
} chat;

static bool on_token(void *ctx, const token_event *ev)
{
    chat *c = ctx;
    if (ev->error) fail_msg("%s", ev->error);
    if (ev->index >= 0) c->cached = ev->cached_tokens;
    if (ev->token >= 0 && ev->index >= 0) {
        c->answer[c->n_answer++] = ev->token;
        said = fnv_add(fnv_add(said, &ev->token, sizeof ev->token), &ev->logprob, sizeof ev->logprob);
    }
    c->finish = ev->finish;
    return true;
}

/* Of a text of n ids: those that need not be computed where every snapshot of every text is there. */
static int64_t could_find(const int32_t *ids, int64_t n)
{
    int64_t best = 0;
    for (int i = 0; i < n_seen; i++) {
        int64_t same = 0;
        while (same < n - 1 && same < seen_n[i] && ids[same] == seen[i][same]) same++;
        if (same > best) best = same;
    }
    return best / STOP * STOP;
}

static void see(const chat *c)
{
    assert_true(n_seen < TEXTS);
    memcpy(seen[n_seen], c->ids, (size_t)c->n * sizeof *c->ids);
    memcpy(seen[n_seen] + c->n, c->answer, (size_t)c->n_answer * sizeof *c->answer);
    seen_n[n_seen++] = c->n + c->n_answer - 1; /* the last one was not read */
}

static uint64_t draw(uint64_t of, uint64_t k, uint64_t most) { return rng_bits(11, of, k) % most; }

/* One answer; tokens computed for it, and those that all snapshots would have left. */
static void ask(engine *g, chat *c, int most, int64_t *computed, int64_t *least)
{
    err e = {0};
    uint64_t id;
    text t;
    text_make(&t, 0, 0, 1, most);
    query q = t.q;
    q.ids = c->ids;
    q.n_ids = (size_t)c->n;
    q.on_token = on_token;
    q.ctx = c;
    c->n_answer = 0;
    c->cached = -1;
    *least += c->n - could_find(c->ids, c->n) + most - 1;
    assert_ok(engine_add_query(g, &q, &id, &e), &e);
    text_run(g);
    assert_int_equal(c->n_answer, most);
    assert_true(c->cached >= 0 && c->cached % STOP == 0);
    *computed += c->n - c->cached + most - 1;
    see(c);
}

static void take_turn(engine *g, chat *c, int k, const custom *how, int64_t *computed, int64_t *least)
{
    const uint64_t of = (uint64_t)(k * TURNS + c->turn);
    const int asked = 60 + (int)draw(of, 1, 240), most = 40 + (int)draw(of, 2, 160);
    for (int i = 0; i < asked; i++) c->ids[c->n++] = (int32_t)draw(of, 100 + (uint64_t)i, TEXT_VOCAB);
    ask(g, c, most, computed, least);
    if (how->asks && of % 5 == 0) ask(g, c, most + 7, computed, least);
    const int from = how->drops ? c->n_answer / 2 : 0;
    memcpy(c->ids + c->n, c->answer + from, (size_t)(c->n_answer - from) * sizeof *c->ids);
    c->n += c->n_answer - from;
    assert_true(c->n < CTX - 600);
    c->turn++;
}

static double run_custom(const custom *how, const char *devices)
{
    static chat chats[CHATS];
    model_shape of = text_shape(CTX);
    of.taps = 100;
    of.window = 0;
    engine *g = text_engine(rig_model(&of, 7, CTX), (engine_options){.devices = devices, .max_batch = 12});
    int64_t computed = 0, least = 0; /* pages of all chats fit */
    text_limit_slots(g, 2 + ROOM);
    n_seen = 0;
    said = FNV_START;
    for (int k = 0; k < CHATS; k++) {
        chats[k] = (chat){.n = how->common};
        for (int i = 0; i < how->common; i++) chats[k].ids[i] = (int32_t)draw(999, (uint64_t)i, TEXT_VOCAB);
    }
    for (int turn = 0; turn < TURNS * CHATS; turn++) {
        int k = turn % CHATS;
        if (how->mixed) k = (int)draw(7, (uint64_t)turn, CHATS);
        while (chats[k].turn == TURNS) k = (k + 1) % CHATS;
        take_turn(g, &chats[k], k, how, &computed, &least);
    }
    text_all_given_back(g);
    engine_close(g);
    print_message("%s: %lld tokens computed, %lld with all snapshots: %.3f\n", how->name, (long long)computed,
                  (long long)least, (double)computed / (double)least);
    return (double)computed / (double)least;
}

static void chats_take_turns(void **unused)
{
    (void)unused;
    double worst = 0;
    for (size_t i = 0; i < sizeof customs / sizeof *customs; i++) {
        worst = fmax(worst, run_custom(&customs[i], NULL));
        const uint64_t alone = said;
        if (!customs[i].asks) continue; /* the one in which steps under way hold what would make room */
        worst = fmax(worst, run_custom(&customs[i], "cpu:1;cpu:1;cpu:1"));
        assert_int_equal(said, alone);
    }
    assert_true(worst <= 1.15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(chats_take_turns)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
