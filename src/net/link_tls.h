/* link_tls.h - the link between ranks in several processes (core/link.h): threads among those of this process,
 * mailboxes of connections to the others. */
#pragma once
#include "comm/link_threads.h"
#include "net/mailboxes.h"

typedef struct link_tls link_tls;

/* The end of a rank of `local`, a group of all ranks. to[r] are the mailboxes shared with rank r, of which box0 … box0
 * + channels - 1 are the channels; NULL: rank r is in this process. Mailboxes and group stay their owner's; the
 * mailboxes are not joined to a peer yet. */
int link_tls_open(link_tls **out, link_group *local, int rank, int box0, int channels, mailboxes *const *to, err *e);
link_end *link_tls_end(link_tls *l);
void link_tls_close(link_tls *l); /* after the mailboxes were closed, before what was posted is freed; NULL ok */
