/* fuzz_hub_reply.c - what a hub answers: lines of a head up to an empty one, then the JSON of a revision, of its tree,
 * or an index. What is taken from it may name files: only plain ones, in their folder. */
#include "hub/hub_choose.h"
#include "hub/hub_name.h"
#include "hub/hub_reply.h"

#include <stdlib.h>
#include <string.h>

static void check_word(const char *s)
{
    if (*s && !hub_name_is_plain(s)) abort();
}

static void check_head(const hub_head *h)
{
    check_word(h->etag);
    check_word(h->linked_etag);
    check_word(h->commit);
    if (h->linked_bytes < -1 || h->length < -1 || h->from < -1 || h->total < -1 || hub_head_bytes(h) < -1) abort();
    if (strlen(h->next) >= sizeof h->next || strlen(h->reason) >= sizeof h->reason) abort();
}

static void check_choice(hub_choice *c, int rc, const err *e)
{
    if (rc && !e->msg[0]) abort();
    for (size_t i = 0; i < c->n; i++)
        if (!hub_name_stays(c->name[i])) abort();
    hub_choice_free(c);
}

static void use_body(span body)
{
    hub_listing l;
    err e = {0};
    const int rc = hub_listing_read(&l, body, "fuzz", &e);
    if (rc && !e.msg[0]) abort();
    if (!rc && !hub_name_is_plain(l.commit)) abort();
    e = (err){0};
    if (hub_listing_add(&l, body, "fuzz", &e) && !e.msg[0]) abort();
    for (size_t i = 0; i < l.n; i++)
        if (!hub_name_stays(l.name[i])) abort();
    static const char *const picks[] = {"", "q8_0", "config.json"};
    for (size_t i = 0; i < sizeof picks / sizeof *picks; i++) {
        hub_choice c;
        e = (err){0};
        const int chosen = hub_choose(&c, l.name, l.n, picks[i], "fuzz", &e);
        check_choice(&c, chosen, &e);
    }
    hub_listing_free(&l);
}

static void use_index(span body)
{
    json *index;
    hub_choice c = {0};
    err e = {0};
    if (json_parse(&index, body, "fuzz", &e)) return;
    const int rc = hub_choose_shards(&c, index, "fuzz", &e);
    check_choice(&c, rc, &e);
    json_free(index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    hub_head h;
    hub_head_begin(&h);
    for (const uint8_t *end; n && (end = memchr(data, '\n', n)); data = end + 1) {
        const size_t line = (size_t)(end - data);
        n -= line + 1;
        if (!line) {
            data = end + 1;
            break;
        }
        hub_head_line(&h, span_of(data, line));
        check_head(&h);
    }
    use_body(span_of(data, n));
    use_index(span_of(data, n));
    return 0;
}
