/* err.c - see err.h. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void make_printable(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f) *s = '?';
}

int err_set(err *e, int code, const char *fmt, ...)
{
    if (!e) return code;
    if (e->code) return e->code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    make_printable(e->msg);
    e->named = 0;
    e->who[0] = 0;
    e->code = code;
    return code;
}

int err_memory(err *e, const char *what)
{
    return what ? err_set(e, ERR_MEMORY, "out of memory for %s", what) : err_set(e, ERR_MEMORY, "out of memory");
}

int err_copy(err *e, const err *from)
{
    if (!from->code) return OK;
    if (e && !e->code) *e = *from;
    return e ? e->code : from->code;
}

int err_wrap(err *e, const char *fmt, ...)
{
    if (!e || !e->code) return e ? e->code : 0;
    char head[ERR_MSG_MAX], old[ERR_MSG_MAX];
    memcpy(old, e->msg, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(head, sizeof head, fmt, ap);
    va_end(ap);
    make_printable(head);
    size_t n = strlen(head);
    if (n > sizeof e->msg - 3) n = sizeof e->msg - 3;
    memcpy(e->msg, head, n);
    snprintf(e->msg + n, sizeof e->msg - n, ": %s", old);
    e->named = 0;
    return e->code;
}

int err_more(err *e, const char *fmt, ...)
{
    if (!e || !e->code) return e ? e->code : 0;
    const size_t n = strlen(e->msg);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->msg + n, sizeof e->msg - n, fmt, ap);
    va_end(ap);
    make_printable(e->msg);
    return e->code;
}

int err_of(err *e, const char *who)
{
    char others[ERR_WHO_MAX];
    if (err_wrap(e, "%s", who) == OK) return OK;
    const size_t n = strlen(who) + 2;
    memcpy(others, e->who, sizeof others);
    snprintf(e->who, sizeof e->who, "%s%s%.*s", who, *others ? " " : "", (int)(sizeof others / 2), others);
    e->named = (uint16_t)(n < sizeof e->msg - 1 ? n : 0);
    return e->code;
}

int err_also(err *e, const char *who)
{
    if (!e || !e->code) return OK;
    const size_t n = strlen(e->who);
    snprintf(e->who + n, sizeof e->who - n, "%s%s", n ? " " : "", who);
    return e->code;
}

bool err_is_of(const err *e, const char *who)
{
    const size_t n = strcspn(e->who, " ");
    return n && strlen(who) == n && !memcmp(e->who, who, n);
}

const char *err_own(const err *e) { return e->msg + e->named; }

void err_rename(err *e, const char *name, const char *as)
{
    char whole[ERR_MSG_MAX];
    const char *at = strstr(e->msg, name);
    if (!at) return;
    snprintf(whole, sizeof whole, "%.*s%s%s", (int)(at - e->msg), e->msg, as, at + strlen(name));
    memcpy(e->msg, whole, sizeof whole);
}

int err_http(int code)
{
    switch (code) {
#define X(id, value, http, doc)                                                                                        \
    case value: return http;
        ERR_LIST(X)
#undef X
    default: return 500;
    }
}
