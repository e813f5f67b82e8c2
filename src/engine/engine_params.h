/* engine_params.h - options of every command that takes a model. */
#pragma once
#include "plan/plan_choices.h"

struct engine;

/* A member for each flag, as rows fill it; the run options of the plan are a struct of their own. */
typedef struct engine_options {
    const char *pooling, *normalize; /* of embeddings: "cls", "mean", "last"; "on", "off"; NULL: as the model says */
    const char *spec, *model, *tokenizer, *pre, *devices, *weights, *act, *kv, *isa;
    const char *ignore_key;           /* keys of the configuration that no spec has to read, commas between them */
    const char *cublas;               /* of --exact off on CUDA devices: cuda/blas.h; NULL: where it usually is */
    const char *peers;                /* nodes that `devices` "auto" may use: measure/auto_open.h; NULL: none */
    const char *key_file;             /* shared with the nodes of `devices` */
    double peer_timeout, peer_wait;   /* seconds; 0: 3, not at all */
    double device_timeout;            /* seconds for a GPU's part of a step: cuda/cuda_state.h; 0: 600 */
    const struct plan_remote *remote; /* how nodes of --devices are reached; NULL: not at all */
    plan_choices choices;             /* but for act_f32, which follows from the model */
    const char *gpu_layers;           /* number, or "all": of the last layers, on GPUs; NULL: as many as fit */
    bool no_gpu;                      /* `devices` "auto" is the CPU */
    const char *gpu;                  /* the one that may be used, if it is there; NULL: all may */
    bool cpu_moe;                     /* the experts of all layers are on the CPU, also of those on GPUs, */
    int64_t n_cpu_moe;                /* of the first so many */
    bool no_kv_offload;               /* kv_host 100 */
    int64_t kv_host;   /* percent of the layers of each GPU here, of the last ones: their cache is not there */
    const char *draft; /* where guesses come from (draft.h); NULL: there are none. A model: measure/auto_open.h */
    const char *draft_accept; /* "same", "exact", "pool" (sample/sample.h); NULL: same */
    int64_t draft_max;        /* guesses of a sequence in a step */
    /* NULL, or called when weights have been read and before memory is given to pages: what else needs some of it. */
    int (*before_pages)(struct engine *g, err *e);
    uint64_t beside, beside_page; /* bytes that pages leave free for others; that these add with each page of theirs */
    const struct backend_use *more_backends; /* besides those of backend_list.h, in tests; NULL: none */
    double prefill_share; /* of the predicted time of a step in which others generate, for prompts; 0: 0.6 */
    int64_t max_queue;    /* queries that wait; 0: 1024 */
    bool guesses;         /* it is the draft model of another engine, which says what there is to say */
    bool verify;          /* contents_verify of the model's files before they are used */
    bool touch;           /* memory of pages, up to 256 MiB, is taken at once, not as it is used */
    const int32_t *bans;  /* [n_bans] sequences that no text may have, as query.bad; copied */
    int32_t n_bans;
    int64_t ctx, threads, chunk, max_batch, step_sequences; /* 0 = default */
} engine_options;

/* The first `source` rows name model and tokenizer; a model's program depends on the first `program` rows. */
extern const param engine_param_rows[];
extern const size_t engine_param_count, engine_source_param_count, engine_program_param_count;
