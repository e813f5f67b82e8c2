/* engine.h - the engine as outer folders see it: open a model, add queries, infer. No tensor type appears here.
 *
 * engine_add_query and engine_infer are the dynamic-batching interface of the Inferflow paper (arXiv 2401.08294, section 3): queries
 * come and go between steps; each step mixes prefill chunks and decode rows of all of them. One thread calls engine_infer;
 * engine_add_query, engine_cancel, engine_pause, engine_wake and engine_get_stats may be called from any thread. Callbacks run on
 * the engine thread while no lock of the engine is held: they may call these too. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H
#include "base/err.h"
#include "base/param.h"
#include "sample/sample.h"
#include "text/tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct engine engine;

/* What every command that takes a model accepts; rows in engine_param_rows. */
typedef struct engine_options {
    const char *pooling, *normalize; /* of embeddings: "cls", "mean", "last"; "on", "off"; NULL: as the model says */
    const char *spec, *model, *tokenizer, *pre, *devices, *weights, *act, *kv, *isa;
    const char *exact;                      /* "on", "off"; NULL: on */
    int64_t ctx, threads, chunk, max_batch; /* 0 = default */
} engine_options;

extern const param engine_param_rows[];
extern const size_t engine_param_count;
/* Of those, the first ones: that name model and tokenizer; and these with the ones that a model's program depends on. */
extern const size_t engine_source_param_count, engine_program_param_count;

int engine_open(engine **out, const engine_options *o, err *e);
void engine_close(engine *g); /* NULL ok; queries that run end with FINISH_CANCELLED */

typedef struct engine_info {
    const char *name, *arch, *format, *path;
    int32_t n_vocab, dim, n_layer;
    int ctx, max_batch, threads;
    int32_t bos, eos[16];
    int n_eos;
    int32_t n_enc_vocab; /* ids that the encoder of an encoder-decoder knows; 0: the model has no such encoder */
    int32_t start[4],
        n_start;    /* what its decoder starts from where the caller has nothing else: start and forced ids */
    bool generates; /* false: an encoder, which gives vectors, scores or what a masked word is, but no text */
    int32_t n_pooled, n_score; /* elements of the vector of a text, of what a classification head says of it; 0: none */
    int32_t n_type;            /* token types; 0: tokens have none */
    int32_t embed_tokens;      /* texts to embed are cut to this many tokens; 0: not said */
    const char *embed_prompt;  /* what stands before texts to embed, NULL: nothing */
    const char *embed_unsupported_module; /* a part of the model's way to embed that is unknown here, or NULL */
    uint64_t weight_bytes; /* read per token: all weights but the embedding table, of experts the used ones */
    uint64_t weight_count; /* numbers in them: two operations each per token */
    const char *isa;
} engine_info;
const engine_info *engine_describe(const engine *g);
/* NULL when the model carries none and none was given. */
const tokenizer *engine_tokenizer(const engine *g);
/* That of what the model writes: another one only for encoder-decoders with two vocabularies. */
const tokenizer *engine_target_tokenizer(const engine *g);
/* Appends what the decoder of an encoder-decoder starts from: its start token and `text`, in which special tokens count; NULL: the
 * ids that the model's generation says. */
int engine_decoder_ids(const engine *g, const char *text, token_list *out, err *e);

typedef enum { FINISH_NONE, FINISH_STOP, FINISH_LENGTH, FINISH_CANCELLED, FINISH_ERROR } finish_reason;

typedef struct token_event {
    uint64_t query;
    int32_t token; /* -1 with finish reasons that carry no token (EOS is not delivered) */
    int64_t index; /* 0 = first generated token; prompt_logprobs: position - n_ids (negative) */
    float logprob; /* raw distribution; only when asked for */
    const top_logprob *top;
    int32_t n_top;
    finish_reason finish;  /* FINISH_NONE: more will come */
    const char *error;     /* FINISH_ERROR */
    int64_t cached_tokens; /* prompt tokens that needed no computation */
    double queue_seconds;  /* from engine_add_query to the query's first step */
    const float *pooled,
        *scores; /* of a pooled query, in its only event: [n_pooled], [n_score]; NULL: the model has none */
    float score; /* of the best beam: log-probability / length ^ length_penalty */
} token_event;

/* When a beam search may end: when as many texts as beams have ended; when besides no running text scores better than the worst of them;
 * or than it could score at its longest. */
typedef enum { BEAM_STOP_FIRST, BEAM_STOP_BETTER, BEAM_STOP_NEVER } beam_stop;

typedef struct query {
    const int32_t *ids;   /* prompt, copied; at least one id. Of an encoder-decoder: what the decoder starts from */
    const int32_t *types; /* [n_ids] token types, copied; NULL: all 0 */
    size_t n_ids;
    const int32_t *enc_ids; /* what the encoder reads, copied; once per query. None for models without one */
    size_t n_enc;
    bool pooled; /* no text, but one vector for the whole prompt: one event, FINISH_STOP */
    int64_t
        max_tokens; /* 0: only the prompt is evaluated (prompt_logprobs); generation stops at the context in any case */
    int64_t min_tokens;
    bool ignore_eos;
    sample_params sample;
    int32_t
        beams; /* > 1: beam search: the tokens of the best text come at the end, `sample`, `bias` and logprobs are not for it */
    double length_penalty;
    beam_stop early_stopping;
    const logit_bias *bias; /* copied */
    int32_t n_bias;
    int32_t n_logprobs; /* -1 none; k: logprob of each token and the k best */
    bool prompt_logprobs;
    bool (*on_token)(void *ctx,
                     const token_event *ev); /* false: stop this query now (stop string found) with FINISH_STOP */
    void *ctx;
} query;

/* Exactly one event with a finish reason ends every accepted query, a cancelled one too; on_token is not called after it, nor after
 * it returned false. Events of a query may come before engine_add_query has returned.
 *
 * Queues a query; ERR_LIMIT when the prompt does not fit the context (message holds both numbers), ERR_USAGE for ids outside
 * the vocabulary, ERR_BUSY when the queue is full. */
int engine_add_query(engine *g, const query *q, uint64_t *id, err *e);
void engine_cancel(engine *g, uint64_t id); /* unknown ids are ignored */
/* Holds a query back (its reader is slow): until it is let go it takes no part in steps and no place that another could use. Unknown
 * ids are ignored. What it generates in the end does not depend on pauses. */
void engine_pause(engine *g, uint64_t id, bool hold);

/* One step; *more says whether work is left. Errors are of the device, not of a query. */
int engine_infer(engine *g, bool *more, err *e);
/* Waits until there is work or `milliseconds` have passed (-1: for ever); engine_wake ends a wait. */
void engine_wait(engine *g, int milliseconds);
void engine_wake(engine *g);

typedef struct engine_stats {
    uint64_t prompt_tokens, cached_tokens, generated_tokens, steps;
    uint64_t encoder_runs; /* inputs that the encoder of an encoder-decoder has read */
    int running, waiting;
    double kv_usage; /* 0 … 1 */
} engine_stats;
void engine_get_stats(engine *g, engine_stats *out);

/* What one step costs that feeds `rows` rows of one sequence which then holds `depth` tokens, `outs` of them with logits: what
 * `bench` and predictions compare with the machine's bounds. Activations are not counted. */
typedef struct engine_cost {
    uint64_t weight_bytes, kv_bytes; /* read */
    double flops;                    /* of matrices and attention in floats; a multiply-add is two */
    double int8_ops;                 /* of matrices whose weights are packed */
} engine_cost;
engine_cost engine_cost_of(const engine *g, int64_t rows, int64_t outs, int64_t depth);

/* Evaluation without sampling: runs `ids` (one sequence, chunked), calls on_rows with consecutive rows of logits [n, n_vocab] or, with
 * layer >= 0, hidden states [n, engine_width] numbered as transformers does: 0 what enters the first layer, l what layer l gives,
 * n_layer what the last gives after the final norm. Not while queries run. */
typedef int (*rows_fn)(void *ctx, const float *rows, int64_t first, int64_t n, err *e);
int32_t engine_width(const engine *g, int layer); /* columns of such rows */
int engine_eval(engine *g, const int32_t *ids, size_t n, int layer, rows_fn on_rows, void *ctx, err *e);
/* The same of an encoder-decoder: `ids` are its decoder's. */
int engine_eval_pair(engine *g, const int32_t *enc_ids, size_t n_enc, const int32_t *ids, size_t n, int layer,
                     rows_fn on_rows, void *ctx, err *e);

/* `plan --dump`: the program and its segments as text. */
int engine_plan_text(engine *g, bool dump, buf *out, err *e);
/* `spec show`. */
int engine_spec_text(engine *g, buf *out, err *e);

#endif
