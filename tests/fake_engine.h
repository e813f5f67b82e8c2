/* fake_engine.h - engine.h and tokenizer.h without a model, for tests of the server: linked instead of the real ones
 * because this object defines their functions first.
 *
 * A token is a byte (id 3 + byte; 0 <s>, 1 </s>, 2 <|x|>). The text it generates is `fake.text` followed by EOS, or
 * without one letters that depend on seed, choice and position, for ever. The vector of a text counts its ids by id mod
 * 8, of unit length; its score is how many letters 'a' are in the second of two texts, minus 1. */
#pragma once
#include "base/cond.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "engine/engine.h"
#include "engine/fingerprint.h"
#include "measure/auto_open.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FAKE_QUERIES = 512, FAKE_VOCAB = 259, FAKE_POOLED = 8, FAKE_SCORES = 3 };

typedef struct fake_query {
    uint64_t id;
    query q;
    int32_t *ids, *types;
    int64_t done;
    bool started, held;
    atomic_bool cancelled;
} fake_query;

struct engine {
    pthread_mutex_t lock;
    pthread_cond_t work;
    fake_query *all[FAKE_QUERIES];
    uint64_t last;
    bool woken;
    engine_stats stats;
    engine_info info;
};

/* What tests may change before a request. */
static struct {
    const char *text;
    const char *chat_template;
    int ctx;
    int max_batch;
    atomic_int delay_us;     /* per step */
    int load_ms;             /* of auto_open */
    int fail_open;           /* error code of auto_open */
    int fail_at;             /* token index at which a query ends with FINISH_ERROR; 0: never */
    const char *unavailable; /* why it serves no query now; NULL: it does */
    int waiting;             /* what the statistics say of the queue */
    engine_peer *peer;       /* the only one; NULL: there is none */
    bool no_tokenizer, no_pooled, fills_in;
    atomic_bool reading;        /* texts are not tokenized before that ends */
    int n_score;                /* up to FAKE_SCORES */
    atomic_int paused, resumed; /* counted */
    char enc[64], dec[64];      /* what the last query gave encoder and decoder, as text */
    query last;                 /* the last query; its pointers are not valid */
} fake = {.ctx = 128, .max_batch = 16, .n_score = 1};

struct tokenizer {
    int unused;
};
static const tokenizer fake_tokenizer;

int engine_peers(engine *g, engine_peer *out, int most)
{
    (void)g;
    if (fake.peer && most > 0) *out = *fake.peer;
    return fake.peer && most > 0;
}

int engine_fingerprint(engine *g, fingerprint *out, err *e)
{
    (void)g, (void)e;
    *out = (fingerprint){.model = "aa", .kv = "f32", .arithmetic = "bb", .exact = true};
    return OK;
}

int engine_keep_folder(engine *g, const char *dir, int64_t bytes, err *e)
{
    (void)g, (void)dir, (void)bytes, (void)e;
    return OK;
}

int auto_open(engine **out, const engine_options *o, err *e)
{
    (void)o;
    *out = NULL;
    if (fake.load_ms) usleep((unsigned)fake.load_ms * 1000);
    if (fake.fail_open) return err_set(e, fake.fail_open, "fake.bin: no such model");
    engine *g = *out = mem_zero(1, sizeof *g);
    pthread_mutex_init(&g->lock, NULL);
    cond_open(&g->work);
    g->info = (engine_info){.name = "fake",
                            .arch = "FakeForCausalLM",
                            .format = "none",
                            .path = "/models/fake",
                            .n_vocab = FAKE_VOCAB,
                            .dim = 8,
                            .n_layer = 2,
                            .ctx = fake.ctx,
                            .max_batch = fake.max_batch,
                            .threads = 1,
                            .bos = 0,
                            .eos = {1},
                            .n_eos = 1,
                            .generates = true,
                            .n_pooled = fake.no_pooled ? 0 : FAKE_POOLED,
                            .n_score = fake.n_score,
                            .isa = "c"};
    return OK;
}

static void fake_end(engine *g, int slot)
{
    pthread_mutex_lock(&g->lock);
    fake_query *f = g->all[slot];
    g->all[slot] = NULL;
    g->stats.running--;
    pthread_mutex_unlock(&g->lock);
    free(f->ids);
    free(f->types);
    free(f);
}

static bool fake_say(fake_query *f, token_event ev)
{
    ev.query_id = f->id;
    ev.cached_tokens = f->q.n_ids > 4 ? 4 : 0;
    return f->q.on_token(f->q.ctx, &ev);
}

void engine_close(engine *g)
{
    if (!g) return;
    for (int i = 0; i < FAKE_QUERIES; i++)
        if (g->all[i]) {
            fake_say(g->all[i], (token_event){.token = -1, .finish = FINISH_CANCELLED});
            fake_end(g, i);
        }
    pthread_mutex_destroy(&g->lock);
    pthread_cond_destroy(&g->work);
    mem_free(g);
}

const engine_info *engine_describe(const engine *g) { return &g->info; }
const tokenizer *engine_target_tokenizer(const engine *g) { return engine_tokenizer(g); }
const tokenizer *engine_tokenizer(const engine *g)
{
    (void)g;
    return fake.no_tokenizer ? NULL : &fake_tokenizer;
}

/* Ids as text: "<s>ab". */
static void fake_note(char to[64], const int32_t *ids, size_t n)
{
    size_t at = 0;
    to[0] = 0;
    for (size_t i = 0; i < n && at < 56; i++)
        at += (size_t)snprintf(to + at, 64 - at, ids[i] < 3 ? "<%d>" : "%c", ids[i] < 3 ? ids[i] : ids[i] - 3);
}

int engine_add_query(engine *g, const query *q, uint64_t *id, err *e)
{
    pthread_mutex_lock(&g->lock);
    fake_note(fake.enc, q->enc_ids, q->n_enc);
    fake_note(fake.dec, q->ids, q->n_ids);
    fake.last = *q;
    pthread_mutex_unlock(&g->lock);
    if (q->n_ids > (size_t)g->info.ctx)
        return err_set(e, ERR_LIMIT, "the prompt has %zu tokens, the context %d", q->n_ids, g->info.ctx);
    pthread_mutex_lock(&g->lock);
    int slot = 0;
    while (slot < FAKE_QUERIES && g->all[slot]) slot++;
    if (slot == FAKE_QUERIES) {
        pthread_mutex_unlock(&g->lock);
        return err_set(e, ERR_BUSY, "the queue is full");
    }
    fake_query *f = calloc(1, sizeof *f);
    f->q = *q;
    f->ids = calloc(q->n_ids, sizeof *f->ids);
    memcpy(f->ids, q->ids, q->n_ids * sizeof *f->ids);
    f->types = calloc(q->n_ids, sizeof *f->types);
    if (q->types) memcpy(f->types, q->types, q->n_ids * sizeof *f->types);
    *id = f->id = ++g->last;
    g->all[slot] = f;
    g->stats.running++;
    g->stats.prompt_tokens += q->n_ids;
    g->woken = true;
    pthread_cond_signal(&g->work);
    pthread_mutex_unlock(&g->lock);
    return OK;
}

static fake_query *fake_find(engine *g, uint64_t id)
{
    for (int i = 0; i < FAKE_QUERIES; i++)
        if (g->all[i] && g->all[i]->id == id) return g->all[i];
    return NULL;
}

void engine_cancel(engine *g, uint64_t id)
{
    pthread_mutex_lock(&g->lock);
    fake_query *f = fake_find(g, id);
    if (f) f->cancelled = true;
    g->woken = true;
    pthread_cond_signal(&g->work);
    pthread_mutex_unlock(&g->lock);
}

void engine_pause(engine *g, uint64_t id, bool hold)
{
    pthread_mutex_lock(&g->lock);
    fake_query *f = fake_find(g, id);
    if (f) f->held = hold;
    if (hold) fake.paused++;
    else fake.resumed++;
    g->woken = true;
    pthread_cond_signal(&g->work);
    pthread_mutex_unlock(&g->lock);
}

static int32_t fake_next(const fake_query *f)
{
    if (fake.text) {
        size_t n = strlen(fake.text);
        if ((size_t)f->done < n) return 3 + (uint8_t)fake.text[f->done];
        return f->q.ignore_eos ? 3 + '.' : 1;
    }
    uint64_t mix[3] = {(uint64_t)f->q.sample.seed, (uint64_t)f->q.sample.choice, (uint64_t)f->done};
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < sizeof mix; i++) h = (h ^ ((uint8_t *)mix)[i]) * 16777619u;
    return 3 + 'a' + (int32_t)(h >> 8) % 26;
}

static void fake_pool(fake_query *f)
{
    float pooled[FAKE_POOLED] = {0}, scores[FAKE_SCORES] = {-1}, sum = 0;
    for (size_t i = 0; i < f->q.n_ids; i++) {
        pooled[f->ids[i] % FAKE_POOLED] += 1;
        scores[0] += f->types[i] == 1 && f->ids[i] == 3 + 'a';
    }
    for (int i = 0; i < FAKE_POOLED; i++) sum += pooled[i] * pooled[i];
    for (int i = 0; i < FAKE_POOLED; i++) pooled[i] /= sqrtf(sum);
    token_event ev = {.token = -1, .finish = FINISH_STOP, .pooled = pooled, .scores = scores};
    if (fake.fail_at) ev = (token_event){.token = -1, .finish = FINISH_ERROR, .error = "the device is on fire"};
    fake_say(f, ev);
}

static bool fake_ends(const fake_query *f, int32_t token)
{
    for (int32_t i = 0; i < f->q.n_stop_ids; i++)
        if (f->q.stop_ids[i] == token) return true;
    return token == 1;
}

/* A beam search: the texts are `fake.text`, each with its number behind it. */
static bool fake_search(fake_query *f)
{
    for (int32_t k = 0; k < f->q.n_best; k++) {
        char text[80];
        snprintf(text, sizeof text, "%s%d", fake.text, k);
        bool live = true;
        for (int i = 0; text[i] && live; i++)
            live = fake_say(f, (token_event){.token = 3 + (uint8_t)text[i], .index = i, .beam = k});
        if (live) fake_say(f, (token_event){.token = -1, .finish = FINISH_STOP, .beam = k});
    }
    return false;
}

/* One token of one query; false: it has ended. */
static bool fake_advance(engine *g, fake_query *f)
{
    top_logprob top[32];
    token_event ev = {.token = -1, .top = top, .n_top = f->q.n_logprobs > 0 ? f->q.n_logprobs : 0};
    for (int i = 0; i < ev.n_top; i++) top[i] = (top_logprob){3 + 'a' + i, -0.25f * (float)(i + 1)};
    if (f->cancelled) {
        ev.finish = FINISH_CANCELLED;
        fake_say(f, ev);
        return false;
    }
    if (f->q.pooled) {
        fake_pool(f);
        return false;
    }
    if (!f->started && f->q.prompt_logprobs)
        for (size_t i = 1; i < f->q.n_ids; i++) {
            ev.token = f->ids[i];
            ev.index = (int64_t)i - (int64_t)f->q.n_ids;
            ev.logprob = -0.5f * (float)i;
            if (!fake_say(f, ev)) return false;
        }
    if (!f->started && f->q.tells_reading && f->q.n_ids > 1) {
        const int64_t read = (int64_t)f->q.n_ids - 1;
        if (!fake_say(f, (token_event){.token = -1, .index = -1, .prompt_read = read})) return false;
    }
    f->started = true;
    if (f->q.beams > 1) return fake_search(f);
    ev.index = f->done;
    ev.token = fake_next(f);
    ev.logprob = -1.5f + 0.25f * (float)f->q.sample.choice;
    int64_t room = g->info.ctx - (int64_t)f->q.n_ids, most = f->q.max_tokens < room ? f->q.max_tokens : room;
    if (fake.fail_at && f->done == fake.fail_at) {
        ev = (token_event){.token = -1, .finish = FINISH_ERROR, .error = "the device is on fire"};
    } else if (most == 0) {
        ev.token = -1;
        ev.finish = FINISH_LENGTH;
    } else if (fake_ends(f, ev.token)) {
        ev.ends = true;
        ev.end_token = ev.token;
        ev.token = -1;
        ev.finish = FINISH_STOP;
    } else if (++f->done == most) {
        ev.finish = FINISH_LENGTH;
    }
    return fake_say(f, ev) && !ev.finish;
}

int engine_infer(engine *g, bool *more, err *e)
{
    (void)e;
    *more = false;
    int batch = 0;
    for (int i = 0; i < FAKE_QUERIES; i++) {
        pthread_mutex_lock(&g->lock);
        fake_query *f = g->all[i];
        bool run = f && (f->cancelled || (!f->held && batch < g->info.max_batch));
        batch += run;
        pthread_mutex_unlock(&g->lock);
        if (!run) continue;
        *more = true;
        bool alive = fake_advance(g, f);
        if (!alive) fake_end(g, i);
        pthread_mutex_lock(&g->lock);
        g->stats.generated_tokens += alive;
        pthread_mutex_unlock(&g->lock);
    }
    if (fake.delay_us) usleep((unsigned)fake.delay_us);
    return OK;
}

void engine_wait(engine *g, int milliseconds)
{
    const double until = clock_now() + milliseconds * 1e-3;
    pthread_mutex_lock(&g->lock);
    while (!g->woken && cond_wait(&g->work, &g->lock, until)) continue;
    g->woken = false;
    pthread_mutex_unlock(&g->lock);
}

void engine_wake(engine *g)
{
    pthread_mutex_lock(&g->lock);
    g->woken = true;
    pthread_cond_signal(&g->work);
    pthread_mutex_unlock(&g->lock);
}

void engine_watch_files(engine *g) { (void)g; }

bool engine_unavailable(engine *g, err *why)
{
    (void)g;
    if (fake.unavailable) err_set(why, ERR_UNAVAILABLE, "%s", fake.unavailable);
    return fake.unavailable != NULL;
}

void engine_get_stats(engine *g, engine_stats *out)
{
    pthread_mutex_lock(&g->lock);
    *out = g->stats;
    if (fake.waiting) out->waiting = fake.waiting;
    pthread_mutex_unlock(&g->lock);
}

int engine_slots(engine *g, engine_slot *out, int most)
{
    int n = 0;
    pthread_mutex_lock(&g->lock);
    for (int i = 0; i < FAKE_QUERIES && n < most; i++)
        if (g->all[i])
            out[n++] = (engine_slot){.id = g->all[i]->id,
                                     .state = g->all[i]->held ? ENGINE_SLOT_PAUSED : ENGINE_SLOT_RUNNING,
                                     .prompt_tokens = (int64_t)g->all[i]->q.n_ids,
                                     .generated = g->all[i]->done};
    pthread_mutex_unlock(&g->lock);
    return n;
}

int tokenizer_encode(const tokenizer *t, span text, int flags, token_list *out, err *e)
{
    (void)t;
    void *p = out->id;
    while (atomic_load(&fake.reading)) usleep(1000);
    if (!mem_grow(&p, &out->cap, out->n + text.n + 1, sizeof *out->id)) return err_set(e, ERR_MEMORY, "out of memory");
    out->id = p;
    if (flags & TOKENIZE_SPECIAL) out->id[out->n++] = 0;
    for (size_t i = 0; i < text.n; i++) {
        if ((flags & TOKENIZE_PARSE) && text.n - i >= 5 && memcmp(text.p + i, "<|x|>", 5) == 0) {
            out->id[out->n++] = 2;
            i += 4;
        } else if ((flags & TOKENIZE_PARSE) && text.n - i >= 3 && memcmp(text.p + i, "<s>", 3) == 0) {
            out->id[out->n++] = 0;
            i += 2;
        } else {
            out->id[out->n++] = 3 + text.p[i];
        }
    }
    return OK;
}

/* <s> a [</s> b] with types; cut at the end. */
int tokenizer_encode_marked(const tokenizer *t, span text, const uint8_t *user, token_list *out, err *e)
{
    for (size_t i = 0; i < text.n;) {
        size_t end = i;
        while (end < text.n && user[end] == user[i]) end++;
        int rc = tokenizer_encode(t, span_of(text.p + i, end - i), user[i] ? 0 : TOKENIZE_PARSE, out, e);
        if (rc) return rc;
        i = end;
    }
    return OK;
}

int tokenizer_encode_input(const tokenizer *t, const token_input *in, int flags, token_list *out, token_list *types,
                           err *e)
{
    size_t begin = out->n, a;
    int rc = tokenizer_encode(t, in->a, flags, out, e);
    a = out->n;
    if (!rc && in->b) token_list_add(out, 1);
    if (!rc && in->b) rc = tokenizer_encode(t, *in->b, 0, out, e);
    if (in->ids_max && out->n > begin + in->ids_max) out->n = begin + in->ids_max;
    for (size_t i = begin; i < out->n && types; i++) token_list_add(types, i > a);
    return rc;
}

bool tokenizer_bytes(const tokenizer *t, int32_t id, buf *out)
{
    (void)t;
    return id >= 3 && id < FAKE_VOCAB && buf_byte(out, (uint8_t)(id - 3));
}

span tokenizer_piece(const tokenizer *t, int32_t id)
{
    (void)t;
    return span_str(id == 0 ? "<s>" : id == 1 ? "</s>" : id == 2 ? "<|x|>" : "");
}

static void fake_bytes(void *ctx, int32_t id, buf *out) { tokenizer_bytes(ctx, id, out); }

const token_trie *engine_token_trie(engine *g, err *e)
{
    static token_trie *trie;
    if (fake.no_tokenizer) {
        err_set(e, ERR_USAGE, "this model has no tokenizer");
        return NULL;
    }
    if (!trie)
        token_trie_open(&trie,
                        &(trie_source){.n_vocab = FAKE_VOCAB, .ends = g->info.eos, .n_end = 1, .bytes = fake_bytes}, e);
    return trie;
}

struct detok {
    buf held;
    int flags;
};

int detok_open(detok **out, const tokenizer *t, int flags, err *e)
{
    (void)t;
    *out = mem_zero(1, sizeof **out);
    if (!*out) return err_set(e, ERR_MEMORY, "out of memory");
    (*out)->flags = flags;
    return OK;
}

int detok_next(detok *d, int32_t id, buf *out, err *e)
{
    if (id < 3) {
        span piece = tokenizer_piece(NULL, id);
        if (!(d->flags & DETOKENIZE_SKIP_SPECIAL)) buf_add(out, piece.p, piece.n);
        return OK;
    }
    if (!buf_byte(&d->held, (uint8_t)(id - 3))) return err_set(e, ERR_MEMORY, "out of memory");
    size_t keep = utf8_incomplete_tail(buf_span(&d->held));
    buf_add(out, d->held.p, d->held.n - keep);
    memmove(d->held.p, d->held.p + d->held.n - keep, keep);
    d->held.n = keep;
    return OK;
}

int detok_finish(detok *d, buf *out, err *e)
{
    (void)e;
    for (size_t i = 0; i < d->held.n; i++) buf_str(out, "\xef\xbf\xbd");
    d->held.n = 0;
    return OK;
}

void detok_close(detok *d)
{
    if (!d) return;
    buf_free(&d->held);
    mem_free(d);
}

int tokenizer_decode(const tokenizer *t, const int32_t *id, size_t n, int flags, buf *out, err *e)
{
    detok *d;
    int rc = detok_open(&d, t, flags, e);
    for (size_t i = 0; i < n && !rc; i++) rc = detok_next(d, id[i], out, e);
    if (!rc) rc = detok_finish(d, out, e);
    detok_close(d);
    return rc;
}

bool tokenizer_is_special(const tokenizer *t, int32_t id)
{
    (void)t;
    return id < 3;
}
uint32_t tokenizer_size(const tokenizer *t)
{
    (void)t;
    return FAKE_VOCAB;
}
const char *tokenizer_kind(const tokenizer *t)
{
    (void)t;
    return "bytes";
}
const char *tokenizer_chat_template(const tokenizer *t)
{
    (void)t;
    return fake.chat_template;
}
int32_t tokenizer_role(const tokenizer *t, token_role role)
{
    (void)t;
    return role == TOKEN_BOS ? 0 : role == TOKEN_EOS ? 1 : -1;
}

/* With fake.fills_in, three letters are the marks of text to fill in. */
int32_t tokenizer_id(const tokenizer *t, const char *piece)
{
    static const char *const mark[] = {"P<fim_prefix>", "S<fim_suffix>", "M<fim_middle>"};
    (void)t;
    for (int i = 0; i < 3 && fake.fills_in; i++)
        if (strcmp(piece, mark[i] + 1) == 0) return 3 + mark[i][0];
    return -1;
}
