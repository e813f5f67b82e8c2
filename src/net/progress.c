/* progress.c - see progress.h. */
#include "net/progress.h"

#include "base/clock.h"

#include <string.h>

void progress_write(uint8_t to[PROGRESS_BYTES], const progress *p)
{
    memcpy(to, &p->work, 8);
    memcpy(to + 8, &p->alive, 8);
    memcpy(to + 16, &p->waits, 4);
    to[20] = p->busy;
}

int progress_read(progress *p, span payload, err *e)
{
    cursor c = cursor_of(payload);
    p->work = cursor_u64(&c);
    p->alive = cursor_u64(&c);
    p->waits = (int32_t)cursor_u32(&c);
    const uint8_t busy = cursor_u8(&c);
    p->busy = busy;
    if (c.bad || cursor_left(&c) || busy > 1 || p->waits < PROGRESS_WAITS_NOT)
        return err_set(e, ERR_FORMAT, "a malformed PONG");
    return OK;
}

void progress_begin(progress_watch *w) { w->at = w->alive_at = w->looked = clock_now(); }

void progress_hear(progress_watch *w, const progress *said)
{
    const double now = clock_now();
    if (said->work != w->last.work || said->busy != w->last.busy) w->at = now;
    if (said->alive != w->last.alive || said->work != w->last.work) w->alive_at = now;
    w->last = *said;
}

double progress_rest(progress_watch *w)
{
    const double now = clock_now(), missed = now - w->looked - 1;
    if (missed > 0 && w->looked > 0) w->at += missed, w->alive_at += missed;
    if (w->at > now) w->at = now;
    w->looked = now;
    return now - w->at;
}
