/* devices.c - see devices.h. */
#include "plan/devices.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MAX = 1024 };

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

/* One device; `list`: what it stands in. */
static int parse_device(span part, const char *list, const backend_use *backends, device_entry *d, err *e)
{
    char word[64], names[256], *tail;
    if (part.n == 0)
        return err_set(e, ERR_USAGE, "--devices: \"%.64s\": an empty device; available: %s", list,
                       offered(backends, names, sizeof names));
    if (part.n >= sizeof word) return err_set(e, ERR_USAGE, "--devices: \"%.40s…\" is too long", (const char *)part.p);
    memcpy(word, part.p, part.n);
    word[part.n] = 0;

    *d = (device_entry){.number = -1, .share = 1};
    char *star = strchr(word, '*'), *colon = strchr(word, ':');
    if (star) {
        *star = 0;
        d->share = strtod(star + 1, &tail);
        if (tail == star + 1 || *tail || !(d->share > 0) || !isfinite(d->share))
            return err_set(e, ERR_USAGE, "--devices: \"%.*s\": a share is a positive number", (int)part.n,
                           (const char *)part.p);
    }
    if (colon && (!star || colon < star)) {
        *colon = 0;
        errno = 0;
        long n = strtol(colon + 1, &tail, 10);
        if (tail == colon + 1 || *tail || errno || n < 0 || n > NUMBER_MAX)
            return err_set(e, ERR_USAGE, "--devices: \"%.*s\": after ':' comes a number up to %d", (int)part.n,
                           (const char *)part.p, NUMBER_MAX);
        d->number = (int)n;
    }
    for (int i = 0; backends[i].be && !d->be; i++)
        if (!strcmp(backends[i].be->name, word) || (i == 0 && !strcmp(word, "auto"))) d->be = backends[i].be;
    if (!d->be)
        return err_set(e, ERR_USAGE, "--devices: there is no device \"%s\"; available: %s", word,
                       offered(backends, names, sizeof names));
    return 0;
}

static bool is_space(uint8_t c) { return c == ' ' || c == '\t'; }

int devices_parse(const char *text, const backend_use *backends, device_entry out[DEVICES_MAX], err *e)
{
    const char *list = text && *text ? text : "auto", *at = list;
    int group = 0;
    for (int n = 0;; n++) {
        if (n == DEVICES_MAX) return err_set(e, ERR_USAGE, "--devices: more than %d devices", DEVICES_MAX);
        span part = span_of(at, strcspn(at, ";&"));
        at += part.n;
        while (part.n && is_space(part.p[0])) part.p++, part.n--;
        while (part.n && is_space(part.p[part.n - 1])) part.n--;
        int rc = parse_device(part, list, backends, &out[n], e);
        if (rc) return rc;
        out[n].group = group;
        if (!*at) return n + 1;
        group += *at++ == ';';
    }
}
