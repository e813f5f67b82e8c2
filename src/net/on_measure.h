/* on_measure.h - MEASURE: a leader asks a node how fast it talks to another one. The reply is an ANSWER with what
 * link_measure says, as three floats of 64 bits. */
#pragma once
#include "net/link_speed.h"

typedef struct measuring measuring;

/* On the node: a thread connects, measures, and answers. */
void measuring_close(measuring *m); /* waits until it is over; before the leader's peer is closed; NULL ok */

/* On the leader: asks the node at `of` for the link to another one; reads what follows a good answer. */
int measure_ask(link_speed *out, const address *of, const address *to, const peer_self *self, err *e);
int measure_read(link_speed *out, span answer, err *e);
