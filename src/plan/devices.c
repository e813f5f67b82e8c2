/* devices.c - see devices.h. */
#include "plan/devices.h"

#include "base/mem.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MAX = 1024, AUTO_TEXT = 128 };

/* "cpu, cpu:N": what this build offers. */
static const char *offered(const backend_use *backends, char *to, size_t cap)
{
    buf b = {0};
    for (int i = 0; backends[i].be; i++)
        buf_printf(&b, "%s%s, %s:N", i ? ", " : "", backends[i].be->name, backends[i].be->name);
    size_t n = b.n < cap - 1 ? b.n : cap - 1;
    if (n) memcpy(to, b.p, n);
    to[n] = 0;
    buf_free(&b);
    return to;
}

/* The number after ':'. */
static int parse_number(span part, const char *from, int *number, err *e)
{
    char *tail;
    errno = 0;
    long n = strtol(from, &tail, 10);
    if (tail == from || *tail || errno || n < 0 || n > NUMBER_MAX)
        return err_set(e, ERR_USAGE,
                       "--devices: \"%.*s\": after ':' comes a number up to %d; a node's device is host:port/cpu",
                       (int)part.n, (const char *)part.p, NUMBER_MAX);
    *number = (int)n;
    return OK;
}

/* A share, and where a comma follows that of experts. */
static int parse_share(span part, const char *from, device_entry *d, err *e)
{
    char *tail, *end;
    d->share = strtod(from, &tail);
    bool good = tail != from && d->share >= 0 && isfinite(d->share);
    if (good && *tail == ',') {
        d->experts = strtod(tail + 1, &end);
        good = end != tail + 1 && d->experts >= 0 && isfinite(d->experts);
        tail = end;
    }
    if (good && !*tail) return OK;
    return err_set(e, ERR_USAGE,
                   "--devices: \"%.*s\": a share is a positive number, or 0; behind a comma may stand that of experts",
                   (int)part.n, (const char *)part.p);
}

/* What stands before '/': "a:7071", "[::1]:7071". */
static int parse_node(span part, size_t n, char node[DEVICE_NODE], err *e)
{
    memcpy(node, part.p, n);
    node[n] = 0;
    const char *colon = strrchr(node, ':');
    char *tail = NULL;
    long port = colon ? strtol(colon + 1, &tail, 10) : 0;
    const bool v6 = node[0] == '[' && colon && colon[-1] == ']';
    if (!colon || colon == node || *tail || port < 1 || port > 65535 || (!v6 && strchr(node, ':') != colon))
        return err_set(e, ERR_USAGE, "--devices: \"%.*s\": a node is host:port or [v6]:port", (int)part.n,
                       (const char *)part.p);
    return OK;
}

/* Whether numbers of the notation are those of devices; else they say how much of one is used. */
static bool counts_devices(const backend *be) { return be->memory && be->memory(0) != MEMORY_OF_PROCESS; }

bool device_look(const backend *be, int number, device_here *out)
{
    const bool counts = counts_devices(be);
    *out = (device_here){.be = be, .number = counts && number < 0 ? 0 : number};
    if (out->number < 0) snprintf(out->name, sizeof out->name, "%s", be->name);
    else snprintf(out->name, sizeof out->name, "%s:%d", be->name, out->number);
    return be->probe(counts ? out->number : 0, &out->info);
}

int devices_here(const backend_use *backends, device_here *out, int most)
{
    int n = 0;
    for (const backend_use *b = backends; b->be; b++) {
        const int first = counts_devices(b->be) ? 0 : -1;
        for (int i = first; n < most && device_look(b->be, i, &out[n]); i++) {
            n += !out[n].info.why;
            if (first < 0) break;
        }
    }
    return n;
}

device_here devices_preferred(const backend_use *backends)
{
    device_here d = {.be = NULL};
    devices_here(backends, &d, 1);
    return d;
}

/* "auto": the device, and the text for it, behind that of the list. */
static void resolve_auto(const char *share, const backend_use *backends, char *spare, device_entry *d)
{
    const device_here is = devices_preferred(backends);
    d->be = is.be;
    d->number = is.number;
    snprintf(spare, AUTO_TEXT, "%s%s%s", is.name, share ? "*" : "", share ? share : "");
    d->text = span_of(spare, strlen(spare));
}

/* One device; `list`: what it stands in; spare: [AUTO_TEXT] for what "auto" comes to. */
static int parse_device(span part, const char *list, const backend_use *backends, char *spare, device_entry *d, err *e)
{
    char word[64], names[256];
    *d = (device_entry){.number = -1, .share = 1, .experts = -1, .text = part};
    if (part.n == 0)
        return err_set(e, ERR_USAGE, "--devices: \"%.64s\": an empty device; available: %s", list,
                       offered(backends, names, sizeof names));
    const char *slash = memchr(part.p, '/', part.n);
    const size_t before = slash ? (size_t)(slash - (const char *)part.p) : 0;
    const span own = slash ? span_of(slash + 1, part.n - before - 1) : part;
    if (own.n >= sizeof word || before >= DEVICE_NODE)
        return err_set(e, ERR_USAGE, "--devices: \"%.40s…\" is too long", (const char *)part.p);
    int rc = slash ? parse_node(part, before, d->node, e) : OK;
    if (own.n) memcpy(word, own.p, own.n);
    word[own.n] = 0;
    char *star = strchr(word, '*'), *colon = strchr(word, ':');
    if (star) *star = 0;
    if (!rc && star) rc = parse_share(part, star + 1, d, e);
    if (colon && (!star || colon < star)) {
        *colon = 0;
        if (!rc) rc = parse_number(part, colon + 1, &d->number, e);
    }
    for (int i = 0; backends[i].be && !d->be; i++)
        if (!strcmp(backends[i].be->name, word)) d->be = backends[i].be;
    if (!rc && !slash && d->number < 0 && !strcmp(word, "auto"))
        resolve_auto(star ? star + 1 : NULL, backends, spare, d);
    if (rc || strlen(word) >= DEVICE_NAME || !word[0] || (!d->be && !slash))
        return rc ? rc
                  : err_set(e, ERR_USAGE, "--devices: there is no device \"%s\"; available: %s", word,
                            offered(backends, names, sizeof names));
    memcpy(d->name, d->be ? d->be->name : word, strlen(d->be ? d->be->name : word) + 1);
    return OK;
}

static bool is_space(uint8_t c) { return c == ' ' || c == '\t'; }

/* The text up to one of these characters, without blanks around it. */
static span next_device(const char **at, const char *ends)
{
    span part = span_of(*at, strcspn(*at, ends));
    *at += part.n;
    while (part.n && is_space(part.p[0])) part.p++, part.n--;
    while (part.n && is_space(part.p[part.n - 1])) part.n--;
    return part;
}

/* Room for as many devices as the text may have. */
static int make_room(device_list *l, const char *text, err *e)
{
    size_t most = 1;
    for (const char *c = text; *c; c++) most += strchr(";&|", *c) != NULL;
    l->text = mem_zero(strlen(text) + 1 + most * AUTO_TEXT, 1);
    l->all = mem_array(most, sizeof *l->all);
    if (!l->text || !l->all) return err_memory(e, "the list of devices");
    memcpy(l->text, text, strlen(text));
    return OK;
}

int device_list_parse(device_list *l, const char *text, const backend_use *backends, err *e)
{
    *l = (device_list){.n = 0};
    int rc = make_room(l, text && *text ? text : "auto", e), group = 0;
    if (rc) return rc;
    char *spare = l->text + strlen(l->text) + 1;
    for (const char *at = l->text;; at++) {
        device_entry *d = &l->all[l->first[l->n + 1]++];
        rc = parse_device(next_device(&at, ";&|"), l->text, backends, spare, d, e);
        spare += AUTO_TEXT;
        if (rc) return rc;
        d->group = group;
        if (*at == '|') continue;
        l->n++;
        if (!*at) return OK;
        if (l->n == DEVICES_MAX) return err_set(e, ERR_USAGE, "--devices: more than %d devices", DEVICES_MAX);
        l->first[l->n + 1] = l->first[l->n];
        group += *at == ';';
    }
}

bool device_list_text(const device_list *l, buf *out)
{
    for (int i = 0; i < l->n; i++) {
        const device_entry *d = device_at(l, i);
        if (i) buf_byte(out, d->group == device_at(l, i - 1)->group ? '&' : ';');
        buf_add(out, d->text.p, d->text.n);
    }
    return !out->bad;
}

void device_list_close(device_list *l)
{
    mem_free(l->all);
    mem_free(l->text);
    *l = (device_list){.n = 0};
}

int devices_lent(const char *text, const backend_use *backends, device_entry out[DEVICES_MAX], err *e)
{
    const char *at = text;
    for (int n = 0;; at++) {
        if (n == DEVICES_MAX) return err_set(e, ERR_USAGE, "--devices: more than %d devices", DEVICES_MAX);
        char spare[AUTO_TEXT];
        const span part = next_device(&at, ",");
        int rc = parse_device(part, text, backends, spare, &out[n], e);
        out[n].text = part;
        if (rc) return rc;
        if (out[n].node[0] || memchr(part.p, '*', part.n))
            return err_set(e, ERR_USAGE, "--devices: \"%.*s\": a node lends devices by only names and numbers",
                           (int)part.n, (const char *)part.p);
        n++;
        if (!*at) return n;
    }
}

static void add_name(buf *to, const device_entry *d)
{
    buf_str(to, d->name);
    if (d->number >= 0) buf_printf(to, ":%d", d->number);
}

int devices_find_lent(const char *lent, const backend_use *backends, device_entry *d, err *e)
{
    device_entry of[DEVICES_MAX];
    buf text = {0};
    if (!lent) return d->be ? OK : err_set(e, ERR_USAGE, "there is no device \"%s\" here", d->name);
    const int n = devices_lent(lent, backends, of, e);
    if (n < 0) return n;
    int most = d->number;
    for (int i = 0; i < n; i++) {
        if (of[i].be != d->be) continue;
        if (of[i].number == d->number) return OK;
        if (d->number < 0 && of[i].number > most) most = of[i].number;
    }
    if (most != d->number) {
        d->number = most;
        return OK;
    }
    for (int i = 0; i < n; i++) {
        if (i) buf_str(&text, ", ");
        add_name(&text, &of[i]);
    }
    buf_str(&text, ", not ");
    add_name(&text, d);
    int rc = err_set(e, ERR_USAGE, "it lends %s", text.bad ? "other devices" : buf_cstr(&text));
    buf_free(&text);
    return rc;
}
