/* lease.h - on a node: one rank of a leader's plan (net/hosted_rank.h), from LEASE (net/lease_msg.h) on. */
#pragma once
#include "net/hosted_rank.h"

typedef struct lease lease;

/* NULL: the rank is of a trial. */
lease *lease_of(hosted_rank *r);
uint64_t lease_steps(lease *l); /* under way, or waiting for their turn */
/* Ends it where it reads this file, which has changed on the disk, or may begin to. From any thread. */
void lease_lose_file(lease *l, const file_id *id, const err *why);
/* Ends it where what it reads of the cache was found changed, by whoever shares the folder. From any thread. */
void lease_look(lease *l);
/* After hosted_stop, a line of the log where it was ready. why: NULL: as hosted_end was told. */
void lease_say_end(const lease *l, const char *why);
