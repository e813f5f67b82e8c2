/* hello.c - see hello.h. */
#include "net/hello.h"

#include "core/arithmetic.h"
#include "net/msg.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static const uint32_t MAGIC = 0x4c464e49; /* "INFL" */

int hello_random(void *p, size_t n, err *e)
{
    if (getrandom(p, n, 0) == (ssize_t)n) return OK;
    return err_set(e, ERR_IO, "no random numbers: %s", strerror(errno));
}

int hello_init(hello *h, err *e)
{
    *h = (hello){
        .protocol_min = PROTOCOL_MIN, .protocol_max = PROTOCOL_MAX, .arithmetic = ARITHMETIC, .silence_ms = 3000};
    return hello_random(&h->node, sizeof h->node, e);
}

const char *hello_name(const hello *mine)
{
    const bool speaks = mine->protocol_min <= PROTOCOL_QUICK && mine->protocol_max >= PROTOCOL_QUICK;
    return speaks ? "inferflow/4" : NULL;
}

static void write_name(buf *out, const char *name)
{
    size_t n = strnlen(name, HELLO_NAME - 1);
    buf_byte(out, (uint8_t)n);
    buf_add(out, name, n);
}

bool hello_write(buf *out, const hello *h)
{
    buf_uint(out, MAGIC, 4);
    buf_uint(out, h->protocol_min, 2);
    buf_uint(out, h->protocol_max, 2);
    buf_uint(out, h->node, 8);
    buf_uint(out, h->arithmetic, 4);
    buf_byte(out, h->inexact);
    buf_byte(out, h->role);
    buf_byte(out, h->answer);
    buf_uint(out, h->silence_ms, 4);
    buf_add(out, h->token, HELLO_TOKEN);
    write_name(out, h->pretended_speed);
    buf_byte(out, (uint8_t)h->n_device);
    for (uint32_t i = 0; i < h->n_device; i++) {
        write_name(out, h->device[i].name);
        write_name(out, h->device[i].what);
        buf_uint(out, h->device[i].bytes, 8);
        buf_uint(out, h->device[i].threads, 4);
    }
    return !out->bad;
}

/* Texts of others are shown in messages: printable characters only. */
static void read_name(char to[HELLO_NAME], cursor *c)
{
    span s = cursor_take(c, cursor_u8(c));
    if (s.n >= HELLO_NAME) c->bad = true;
    for (size_t i = 0; i < s.n && !c->bad; i++) c->bad = s.p[i] < 32 || s.p[i] == 127;
    if (!c->bad) memcpy(to, s.p, s.n);
}

static bool speaks(const hello *h) { return h->protocol_min <= PROTOCOL_MAX && h->protocol_max >= PROTOCOL_MIN; }

int hello_read(hello *h, span payload, err *e)
{
    cursor c = cursor_of(payload);
    *h = (hello){0};
    if (cursor_u32(&c) != MAGIC) return err_set(e, ERR_FORMAT, "what it says first is no hello");
    h->protocol_min = cursor_u16(&c);
    h->protocol_max = cursor_u16(&c);
    if (!c.bad && h->protocol_min <= h->protocol_max && !speaks(h)) return OK;
    h->node = cursor_u64(&c);
    h->arithmetic = cursor_u32(&c);
    uint8_t inexact = cursor_u8(&c);
    h->inexact = inexact;
    h->role = cursor_u8(&c);
    h->answer = cursor_u8(&c);
    h->silence_ms = cursor_u32(&c);
    span token = cursor_take(&c, HELLO_TOKEN);
    if (!c.bad) memcpy(h->token, token.p, HELLO_TOKEN);
    read_name(h->pretended_speed, &c);
    h->n_device = cursor_u8(&c);
    if (h->n_device > HELLO_DEVICES) c.bad = true;
    for (uint32_t i = 0; i < h->n_device && !c.bad; i++) {
        read_name(h->device[i].name, &c);
        read_name(h->device[i].what, &c);
        h->device[i].bytes = cursor_u64(&c);
        h->device[i].threads = cursor_u32(&c);
    }
    bool longer = cursor_left(&c) && h->protocol_max <= PROTOCOL_MAX; /* a newer one may say more */
    if (c.bad || longer || inexact > 1 || h->role > HELLO_BULK || h->answer > HELLO_UNKNOWN_TOKEN ||
        h->protocol_min > h->protocol_max || h->silence_ms < 100 || h->silence_ms > 3600000)
        return err_set(e, ERR_FORMAT, "its hello is malformed");
    return OK;
}

static void print_range(char to[40], const hello *h)
{
    int n = snprintf(to, 40, "%u", h->protocol_min);
    if (h->protocol_max > h->protocol_min) snprintf(to + n, 40 - (size_t)n, " to %u", h->protocol_max);
}

int hello_check(const hello *mine, const hello *theirs, bool i_dialled, err *e)
{
    char they[40], we[40];
    if (theirs->protocol_min > mine->protocol_max || theirs->protocol_max < mine->protocol_min) {
        print_range(they, theirs);
        print_range(we, mine);
        return err_set(e, ERR_FORMAT, "speaks protocol %s, this is %s", they, we);
    }
    if (theirs->arithmetic != mine->arithmetic && !(i_dialled ? mine : theirs)->inexact)
        return err_set(e, ERR_FORMAT, "computes by arithmetic %u, this is %u (--exact off)", theirs->arithmetic,
                       mine->arithmetic);
    if (theirs->answer == HELLO_FULL) return err_set(e, ERR_BUSY, "has no room for another leader");
    if (theirs->answer == HELLO_UNKNOWN_TOKEN)
        return err_set(e, ERR_IO, "does not know the control connection of this bulk connection");
    return OK;
}
