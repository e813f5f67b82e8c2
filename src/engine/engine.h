/* engine.h - the engine as outer folders see it: open a model, add queries, infer. No tensor type appears here.
 * engine.c opens and describes, queue.c takes queries, infer.c runs steps. Evaluations, forecasts and the choice of
 * devices lie above it, in src/measure.
 *
 * engine_add_query and engine_infer are the dynamic-batching interface of the Inferflow paper (arXiv 2401.08294,
 * section 3): queries come and go between steps; each step mixes prefill chunks and decode rows of all of them. One
 * thread calls engine_infer; engine_add_query, engine_cancel, engine_pause, engine_wake and engine_get_stats may be
 * called from any thread. Callbacks run on the engine thread without a lock of the engine: they may call these too. */
#pragma once
#include "engine/engine_params.h"
#include "sample/grammar.h"
#include "sample/sample.h"
#include "text/tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct engine engine;

int engine_open(engine **out, const engine_options *o, err *e);
void engine_close(engine *g); /* NULL ok; queries that run end with FINISH_CANCELLED */

enum { EOS_MAX = 16 };
/* All facts of a model that stay the same, in one place: readers want two or three of them, each other ones. */
typedef struct engine_info {
    const char *name, *arch, *format, *path;
    int32_t n_vocab, dim, n_layer;
    int ctx, threads;
    _Atomic int max_batch; /* sequences that run at once; grows where nodes have more memory after a recovery */
    int chunk;             /* rows of prompts in a step, at most */
    int32_t bos, eos[EOS_MAX];
    int n_eos;
    int32_t n_enc_vocab;       /* ids that the encoder of an encoder-decoder knows; 0: the model has none */
    int32_t start[4], n_start; /* the decoder's start unless the caller gives another: start and forced ids */
    bool wraps;                /* where a head judges a text, the decoder starts from the text's last token instead */
    bool generates;            /* false: gives vectors, scores, labels or masked words, but no text */
    int32_t n_label;           /* labels of each token that a head gives instead of logits; 0: none */
    int32_t n_pooled, n_score; /* elements of a text's vector, of its classification scores; 0: none */
    int32_t n_type;            /* token types; 0: tokens have none */
    int32_t embed_tokens;      /* texts to embed are cut to this many tokens; 0: not said */
    const char *embed_prompt;  /* stands before texts to embed; NULL: nothing */
    const char *embed_unsupported_module; /* of the model's embedding pipeline, or NULL */
    uint64_t weight_bytes; /* read per token: all weights except the embedding table, of experts the used ones */
    uint64_t weight_count; /* numbers in them: two operations each per token */
    const int32_t *bans;   /* [n_bans] sequences that no text may have, as query.bad: engine_options */
    int32_t n_bans;
    const char *isa;
    const char *devices; /* the list as resolved; valid until fail-over */
} engine_info;
const engine_info *engine_describe(const engine *g);
/* NULL when the model carries none and none was given. */
const tokenizer *engine_tokenizer(const engine *g);
/* The tokenizer of generated text: another one only for encoder-decoders with two vocabularies. */
const tokenizer *engine_target_tokenizer(const engine *g);
/* The bytes of generated tokens, for grammars; made by the first call, from any thread. It lives as long as the engine.
 * NULL: there is no tokenizer (ERR_USAGE), or no memory. */
const token_trie *engine_token_trie(engine *g, err *e);
/* What lies where: plan/plan_show.h. */
int engine_plan_text(const engine *g, bool dump, buf *out, err *e);
int engine_plan_json(const engine *g, const double *seconds, json *root, err *e);
/* Adds what the first device here has chosen by measurement: plan/plan_show.h. */
void engine_tell(const engine *g, json *to);

/* Pages on disk, after engine_open and before the first query. Texts find pages on disk as they find pages in memory.
 * Pages of another model, arithmetic or division over devices are never found. Pages on nodes are not kept.
 *
 * _folder: pages are written to files of this folder, at most so many bytes, and outlive the engine (page_store.h).
 * _file: those of one text, from its first one, are read from this file, if there is one (ERR_FORMAT, ERR_NOT_FOUND: it
 * is damaged, or another model's); engine_session_save writes those of the text that has ended last. */
int engine_keep_folder(engine *g, const char *dir, int64_t bytes, err *e);
int engine_keep_file(engine *g, const char *path, err *e);
int engine_session_save(engine *g, const char *path, err *e);

typedef enum { FINISH_NONE, FINISH_STOP, FINISH_LENGTH, FINISH_CANCELLED, FINISH_ERROR } finish_reason;

typedef struct token_event {
    uint64_t query_id;
    int32_t token; /* -1 with finish reasons that carry no token (EOS is not delivered) */
    int64_t index; /* 0 = first generated token; prompt_logprobs: position - n_ids (negative) */
    float logprob; /* raw distribution; only when asked for */
    bool ends;     /* FINISH_STOP: the text ended at end_token, no part of it; logprob and top are of end_token */
    int32_t end_token;
    int32_t beam; /* which of the best texts of a beam search, 0: the best; each of them ends with a finish reason */
    const top_logprob *top;
    int32_t n_top;
    finish_reason finish;         /* FINISH_NONE: more will come */
    const char *error;            /* FINISH_ERROR */
    int64_t cached_tokens;        /* prompt tokens that needed no computation */
    int64_t prompt_read;          /* > 0: no token, but how many of the prompt's have been read (query.tells_reading) */
    double queue_seconds;         /* from engine_add_query to the query's first step */
    const float *pooled, *scores; /* of a pooled query: [n_pooled], [n_score]; NULL: the model has none */
    float score;                  /* of the best beam: log-probability / length ^ length_penalty */
} token_event;

/* A beam search ends when as many texts as beams have ended; but with BETTER not while a running text scores better
 * than the worst of them, with NEVER not while one still could at its longest. */
typedef enum { BEAM_STOP_FIRST, BEAM_STOP_BETTER, BEAM_STOP_NEVER } beam_stop;
enum { BEAMS_MAX = 64, SALT_BYTES = 32 };

/* All that a request may say of a text, each a member, so that a caller names what it wants and zero is the rest. */
typedef struct query {
    const int32_t *ids;   /* prompt, copied; at least one id. Of an encoder-decoder: the start of the decoder's text */
    const int32_t *types; /* [n_ids] token types, copied; NULL: all 0 */
    size_t n_ids;
    const int32_t *enc_ids; /* the encoder's input, copied; none for models without an encoder */
    size_t n_enc;
    bool pooled;        /* no text, but one vector for the whole prompt: one event, FINISH_STOP */
    int64_t max_tokens; /* 0: only the prompt is evaluated (prompt_logprobs); generation stops at the context anyway */
    int64_t min_tokens;
    bool ignore_eos;
    const int32_t *stop_ids; /* copied: they end the text as EOS does, whatever ignore_eos says */
    int32_t n_stop_ids;
    const uint64_t *allowed; /* [n_allowed] copied; a bit an id: those that may be drawn */
    int32_t n_allowed;       /* (n_vocab + 63) / 64; 0: all */
    const int32_t *bad;      /* [n_bad] copied: sequences that must not come up, each as its length, then its ids */
    int32_t n_bad;
    sample_params sample;
    int32_t beams; /* > 1: beam search: its texts come at the end, without what limits and describes single draws */
    /* Of a beam search: whether a text of these generated ids has come to its end; NULL: none has. Engine thread. */
    bool (*is_whole)(void *ctx, const int32_t *ids, int64_t n);
    int32_t n_best; /* texts of a beam search that are delivered, the best first; 0: one */
    double length_penalty;
    beam_stop early_stopping;
    const logit_bias *bias; /* copied */
    int32_t n_bias;
    grammar *constraint; /* the text follows it, and ends with FINISH_STOP where nothing may follow; kept. NULL: none */
    int32_t n_logprobs;  /* -1 none; k: logprob of each token and the k best */
    bool prompt_logprobs;
    bool tells_reading;      /* an event after each step that reads a part of the prompt but not its end */
    const uint8_t *salt;     /* [SALT_BYTES], copied: only prompts of the same salt share pages; NULL: no salt */
    bool unshared;           /* it neither gives nor takes pages of the prefix cache: for measurements */
    uint64_t same_prompt_as; /* a query added before: the prompt is read, and counted, once for both; 0: none */
    int64_t priority;        /* lower ones go first */
    uint64_t owner, request; /* equal numbers: of one client, of one request; these take turns */
    bool (*on_token)(void *ctx, const token_event *ev); /* false: stop now (stop string found) with FINISH_STOP */
    void *ctx;
} query;

/* Queues a query. ERR_LIMIT: the prompt does not fit the context (message holds both numbers); ERR_USAGE: ids outside
 * the vocabulary; ERR_BUSY: the queue is full; ERR_UNAVAILABLE: as engine_unavailable.
 *
 * Exactly one event with a finish reason ends every accepted query, a cancelled one too; on_token is not called after
 * it, nor after it returned false. Events of a query may come before engine_add_query has returned. */
int engine_add_query(engine *g, const query *q, uint64_t *id, err *e);
void engine_cancel(engine *g, uint64_t id); /* unknown ids are ignored */
/* Holds a query back (its reader is slow): until it is released it takes no part in steps and no place that another
 * could use. Unknown ids are ignored. Pauses do not change the generated text. */
void engine_pause(engine *g, uint64_t id, bool hold);

/* One step; *more says whether work is left. Errors are of the device, not of a query. */
int engine_infer(engine *g, bool *more, err *e);
/* Waits until there is work or `milliseconds` have passed (-1: for ever); engine_wake ends a wait. */
void engine_wait(engine *g, int milliseconds);
void engine_wake(engine *g);

typedef struct engine_stats {
    /* Of prompts that were read: all tokens, and those that needed no computation; the same of the prompts for which
     * shared pages were looked up. */
    uint64_t prompt_tokens, cached_tokens, sought_tokens, found_tokens;
    uint64_t generated_tokens, steps;
    uint64_t draft_tokens, draft_accepted;  /* guesses of --draft; those that held */
    uint64_t encoder_runs;                  /* inputs that the encoder of an encoder-decoder has read */
    uint64_t preemptions;                   /* caches that were given up for others */
    uint64_t disk_read, disk_written;       /* full pages that came from engine_keep_folder, and went there */
    uint64_t recoveries, recomputed_tokens; /* losses of nodes that were made good; tokens computed a second time */
    int in_flight;                          /* steps under way */
    bool away;                              /* a node is lost, and queries wait for it */
    bool spare;                             /* a spare has the part of another node */
    bool late;                              /* a step takes far longer than it should */
    int running, waiting;
    double kv_usage;                            /* of pages that queries hold, 0 … 1 */
    int64_t pages_used, pages_kept, pages_free; /* kept: nobody holds them, but they can be found again */
} engine_stats;
void engine_get_stats(engine *g, engine_stats *out);

/* Why no query can be served for a while: a file of weights is not as it was when it was loaded (ERR_UNAVAILABLE:
 * damage.h), or a node was waited for in vain (ERR_NODE_LOST); or ever again: a device of this process is lost
 * (ERR_UNAVAILABLE). From any thread; why: NULL ok. */
bool engine_unavailable(engine *g, err *why);
/* From now on its files are read again from the disk while there is nothing to do (engine/damage.h). After
 * engine_fingerprint, on the engine thread. */
void engine_watch_files(engine *g);

/* A query that has not ended. */
typedef enum { ENGINE_SLOT_WAITING, ENGINE_SLOT_RUNNING, ENGINE_SLOT_PAUSED } engine_slot_state;
typedef struct engine_slot {
    uint64_t id;
    engine_slot_state state;
    int64_t prompt_tokens, cached_tokens; /* cached: of the prompt, those that needed no computation */
    int64_t past, generated;              /* past: tokens in the cache */
    int64_t priority;
    double seconds; /* since engine_add_query */
} engine_slot;
/* Fills at most `most`, newest first; from any thread. */
int engine_slots(engine *g, engine_slot *out, int most);

/* A node of --devices. Spares are greeted now and then: SPARE, it is there; DOWN, it is not. */
typedef enum {
    ENGINE_PEER_UP,
    ENGINE_PEER_AWAY,
    ENGINE_PEER_REFUSED,
    ENGINE_PEER_SPARE,
    ENGINE_PEER_DOWN
} engine_peer_state;
/* Bytes of messages by what they carry: what to do, rows, weights. */
typedef struct engine_traffic {
    uint64_t step, data, weight;
} engine_traffic;
typedef struct engine_peer {
    char name[280], node[17], detail[300]; /* "a:7071"; 16 hex digits, or empty; why it is not up */
    char pretended_speed[64]; /* GB/s,GOP/s of the machine that it pretends to be (node --as); "": it does not */
    engine_peer_state state;
    bool unused;   /* a spare whose turn it is not, or a node that a spare stands for */
    double rtt_ms; /* 0: unknown */
    engine_traffic sent, received;
    double wait;     /* seconds in which it had a step, or waited for rows of one, and did not compute */
    double kv_usage; /* of the memory of its pages, what queries hold; 0 … 1 */
    int64_t hashed;  /* seconds since 1970, when the oldest of the weights that it reads was hashed; 0: not known */
} engine_peer;
/* Fills at most `most`; from any thread. */
int engine_peers(engine *g, engine_peer *out, int most);

/* A device of the plan. */
typedef struct engine_device {
    char name[320];              /* "a:7071/cpu" */
    int group, layers;           /* layers: of its group */
    double busy;                 /* seconds that it has computed so far */
    const char *pretended_speed; /* as engine_peer.pretended_speed; NULL: it does not pretend */
} engine_device;
/* Fills at most `most` and returns their number; on the engine thread. `as` lives until the next step. */
int engine_devices(const engine *g, engine_device *out, int most);
double engine_busy(const engine *g, int i); /* engine_device.busy of device i now */
