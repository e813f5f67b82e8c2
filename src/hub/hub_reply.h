/* hub_reply.h - what a hub answers, read with suspicion: heads of replies line by line, and the list of a repository.
 *
 * Pure functions over bytes: nothing here opens a connection or a file. */
#pragma once
#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HUB_WORD = 132, HUB_REASON = 200, HUB_LINK = 1000 };

/* Of one reply; texts are "" and numbers -1 where the head does not say them. */
typedef struct hub_head {
    int status;
    char etag[HUB_WORD], linked_etag[HUB_WORD]; /* without quotes and W/; names of files, others are left out */
    char commit[HUB_WORD];
    int64_t linked_bytes; /* X-Linked-Size: of the file that a redirect leads to */
    int64_t length;       /* Content-Length */
    int64_t from, total;  /* Content-Range */
    int wait;             /* seconds after which to ask again: RateLimit, Retry-After */
    char code[HUB_WORD], reason[HUB_REASON];
    char next[HUB_LINK]; /* Link: where a list goes on */
} hub_head;

/* The first line of a reply begins a head. */
void hub_head_begin(hub_head *h);
/* A line of it, with or without its end. */
void hub_head_line(hub_head *h, span line);
/* What the file is called and how long it is, by the redirect to it or by itself; "" and -1: unknown. */
const char *hub_head_etag(const hub_head *h);
int64_t hub_head_bytes(const hub_head *h);

typedef struct hub_listing {
    char commit[HUB_WORD];
    char **name; /* of n files, with slashes */
    size_t n, cap;
} hub_listing;

/* The JSON of a revision: its commit and, where it lists them, its files. ERR_FORMAT: it is not that, or names a file
 * outside its folder. */
int hub_listing_read(hub_listing *l, span body, const char *what, err *e);
/* Adds the files of a page of its tree. */
int hub_listing_add(hub_listing *l, span page, const char *what, err *e);
void hub_listing_free(hub_listing *l); /* also after an error */
