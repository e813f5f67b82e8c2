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
    e->code = code;
    return code;
}

int err_copy(err *e, const err *from) { return from->code ? err_set(e, from->code, "%s", from->msg) : OK; }

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
    return e->code;
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
