/* on_measure.h - MEASURE: a leader asks a node how fast it talks to another one. The reply is an ANSWER with what
 * link_measure says, as three floats of 64 bits. */
#pragma once
#include "net/link_speed.h"

typedef struct measuring measuring;

/* On the node: payload is the address of the other one. A thread connects, measures, and answers `by`, which must stay
 * until measuring_close. Does not wait. */
int measuring_open(measuring **out, const peer_self *self, peer *by, span payload, err *e);
void measuring_close(measuring *m); /* waits until it is over; NULL ok */

/* On the leader: what follows a good answer. */
int measure_read(link_speed *out, span answer, err *e);
