/* hub_ask.h - a request until it is answered: what breaks is tried again from where it broke, and a hub that limits
 * requests is asked again when it says.
 *
 * All connections of a download share one clock of silence: it ends when none of them has brought a byte or an answer
 * for 45 seconds; and when one has failed for so long, or has broken again and again for 100 seconds without bringing
 * much. */
#pragma once
#include "hub/hub_http.h"

typedef struct hub_client {
    const char *endpoint, *repo; /* "https://huggingface.co"; "ORG/NAME" */
    char token[1000];
    atomic_bool stop;
    _Atomic double heard;
} hub_client;

/* Says to a user at a terminal what is waited for; others get an error, if it comes to that. */
void hub_tell(const hub_client *c, const char *why);

/* OK: the reply is one of status 200 or 206, or (q->head) a redirect that names the file. Messages begin with
 * "ORG/NAME" or "ORG/NAME/FILE". */
int hub_ask(hub_client *c, hub_http *h, hub_request *q, hub_head *head, err *e);
