/* draft_state.h - speculative decoding of one session: its draft tokens, and whether those before were worth their
 * time (draft.c). */
#pragma once
#include "sample/sample.h"

#include <stdbool.h>
#include <stdint.h>

enum { DRAFT_MAX = 16 };

struct session;

typedef struct draft_state {
    int n;      /* draft tokens of the next step: ids[n_ids], … */
    bool known; /* some were made before; of these `acceptance` is the share that held lately */
    float acceptance;
    int backoff_left;       /* remaining steps without draft tokens */
    int backoff;            /* their number at the beginning; 0: draft tokens pay */
    int probes_left;        /* remaining steps in which draft tokens are to show whether they pay */
    guess_rule rule;        /* by which they hold */
    guess_chances *chances; /* [DRAFT_MAX] of them, where `rule` asks for them; of a model_session: where they go */
    struct session *model_session; /* the text for the model that guesses (draft_model.c); NULL: none */
    int64_t agreed;                /* of a model_session: tokens that are the session's */
} draft_state;
