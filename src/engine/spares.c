/* spares.c - see spares.h. */
#include "engine/spares.h"

#include <string.h>

/* The alternatives of one position: text up to ';' or '&'. */
static span position(const char **at)
{
    const span s = span_of(*at, strcspn(*at, ";&"));
    *at += s.n;
    return s;
}

static int count(span s)
{
    int n = 1;
    for (size_t i = 0; i < s.n; i++) n += s.p[i] == '|';
    return n;
}

/* Alternative k, without blanks around it. */
static span alternative(span s, int k)
{
    for (; k; k--) {
        const uint8_t *bar = memchr(s.p, '|', s.n);
        s.n -= (size_t)(bar + 1 - s.p);
        s.p = bar + 1;
    }
    const uint8_t *bar = memchr(s.p, '|', s.n);
    if (bar) s.n = (size_t)(bar - s.p);
    while (s.n && s.p[0] == ' ') s.p++, s.n--;
    while (s.n && s.p[s.n - 1] == ' ') s.n--;
    return s;
}

bool spares_any(const spares *s)
{
    bool any = false;
    for (int i = 0; i < DEVICES_MAX; i++) any = any || s->of[i];
    return any;
}

bool spares_apply(const spares *s, const char *list, buf *out)
{
    const char *at = list;
    for (int i = 0;; i++) {
        const span all = position(&at);
        const int n = count(all);
        const span one = alternative(all, i < DEVICES_MAX ? s->of[i] % n : 0);
        buf_add(out, one.p, one.n);
        if (!*at) return !out->bad;
        buf_byte(out, (uint8_t)*at++);
    }
}

static bool turn(spares *s, const char *list, span node)
{
    const char *at = list;
    bool any = false;
    for (int i = 0; i < DEVICES_MAX; i++) {
        const span all = position(&at);
        const int n = count(all);
        const span one = alternative(all, s->of[i] % n);
        const uint8_t *slash = memchr(one.p, '/', one.n);
        if (slash && n > 1 && span_eq(span_of(one.p, (size_t)(slash - one.p)), node)) {
            s->of[i] = (uint8_t)((s->of[i] + 1) % n);
            any = true;
        }
        if (!*at) break;
        at++;
    }
    return any;
}

bool spares_turn(spares *s, const char *list, const char *who)
{
    bool any = false;
    for (size_t n; *who && !any; who += n + (who[n] != 0)) {
        n = strcspn(who, " ");
        any = turn(s, list, span_of(who, n));
    }
    return any;
}
