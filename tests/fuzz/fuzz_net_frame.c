/* fuzz_net_frame.c - records of one connection. Of each the input holds the head and the number of bytes that follow,
 * which are zeros: large frames take few bytes of input. */
#include "net/frame.h"

#include "base/mem.h"

#include <stdlib.h>

enum { MOST = 1 << 20 };
static uint8_t *room;
static uint32_t open_bytes;

static int admit(void *ctx, const frame_head *h, uint8_t **to, err *e)
{
    (void)ctx;
    if (h->bytes > MOST) return err_set(e, ERR_LIMIT, "too large");
    if (h->bytes <= FRAME_SMALL) return OK;
    if (room) abort(); /* one large frame at a time */
    *to = room = mem_alloc(h->bytes);
    open_bytes = h->bytes;
    return OK;
}

static int take(void *ctx, const frame_head *h, const uint8_t *payload, err *e)
{
    (void)ctx;
    (void)e;
    unsigned sum = 0;
    for (uint32_t i = 0; i < h->bytes; i++) sum |= payload[i];
    if (sum || (h->bytes > FRAME_SMALL && (payload != room || h->bytes != open_bytes))) abort();
    if (h->bytes > FRAME_SMALL) mem_free(room), room = NULL;
    return OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    cursor c = cursor_of(span_of(data, n));
    frames *f = frames_open(NULL);
    frame_sink sink = {NULL, admit, take};
    if (!f) abort();
    for (int rc = OK; !rc && cursor_left(&c);) {
        span head = cursor_take(&c, cursor_left(&c) < FRAME_HEAD ? cursor_left(&c) : FRAME_HEAD);
        size_t more = head.n < FRAME_HEAD ? 0 : cursor_u16(&c) % (FRAME_SMALL + 1);
        uint8_t *record = mem_zero(1, head.n + more); /* exact, so that a sanitizer sees the first byte beyond */
        if (!record) abort();
        memcpy(record, head.p, head.n);
        rc = frame_record(f, span_of(record, head.n + more), &sink, NULL);
        mem_free(record);
    }
    frames_close(f);
    mem_free(room);
    room = NULL;
    return 0;
}
