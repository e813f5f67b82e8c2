/* receipt.h - what a text was made of, so that anybody with the model can draw it again (replay.h): the ids of prompt
 * and text, all parameters with seed and choice, and digests of model and arithmetic (fingerprint.h). As JSON:
 *
 *     {"version":1,"model":…,"arithmetic":…,"kv":"i16","prompt_ids":[…],"ids":[…],"params":{…},"finish_reason":"stop"}
 *
 * "encoder_ids" is there where the model has an encoder. */
#pragma once
#include "base/json.h"
#include "engine/fingerprint.h"
#include "text/token_list.h"

typedef struct receipt {
    query q; /* what it points to is in the lists below */
    token_list prompt, encoder, ids, stops, bad;
    logit_bias *bias;
    uint64_t *allowed;
    grammar *form; /* of the text, or NULL */
    bool ended;    /* by an end token */
} receipt;

/* How a text ended. An end token is not among its ids; a text that a stop string ended may be cut inside its last. */
typedef enum { RECEIPT_LENGTH, RECEIPT_END_TOKEN, RECEIPT_STOP_TEXT } receipt_end;

/* ERR_USAGE: the tokens of a text of this query are not drawn (beams), or not from their seed alone (--exact off,
 * --draft-accept exact or pool). */
int receipt_check_query(const fingerprint *f, const query *q, err *e);
/* Adds the members to an object. q: as it was added, with its seed; n ids were generated. */
void receipt_write(json *to, const engine *g, const fingerprint *f, const query *q, const int32_t *ids, size_t n,
                   receipt_end how);
/* ERR_FORMAT: malformed, of another model or arithmetic than f; the message says which. */
int receipt_read(receipt *out, const json *from, const fingerprint *f, engine *g, err *e);
void receipt_free(receipt *r);
