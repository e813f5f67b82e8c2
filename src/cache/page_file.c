/* page_file.c - see page_file.h. */
#include "cache/page_file.h"

#include <string.h>

static const char magic[16] = "inferflow pages "; /* then the version, a digit */
enum { RECORD_BYTES = SHA256_BYTES + 4 + SHA256_BYTES };

/* How many numbers of bytes a file has. */
static int numbers_of(int version) { return version == 2 ? GROUP_MAX + 1 : GROUP_MAX; }
static int version_of(const page_shape *s) { return s->bytes[GROUP_MAX] ? 2 : 1; }

uint64_t page_record_bytes(const page_shape *s, uint32_t groups)
{
    uint64_t sum = 0;
    for (int g = 0; g <= GROUP_MAX; g++)
        if (groups >> g & 1) sum += s->bytes[g];
    return sum;
}

void page_file_add_head(buf *out, const page_shape *s, const page_record *r, uint32_t n)
{
    const size_t from = out->n;
    uint8_t digest[SHA256_BYTES];
    buf_add(out, magic, sizeof magic);
    buf_byte(out, (uint8_t)('0' + version_of(s)));
    buf_add(out, s->made_for, sizeof s->made_for);
    for (int g = 0; g < numbers_of(version_of(s)); g++) buf_uint(out, s->bytes[g], 8);
    buf_uint(out, n, 4);
    for (uint32_t i = 0; i < n; i++) {
        buf_add(out, r[i].name, sizeof r[i].name);
        buf_uint(out, r[i].groups, 4);
        buf_add(out, r[i].sum, sizeof r[i].sum);
    }
    if (out->bad) return;
    sha256_of(out->p + from, out->n - from, digest);
    buf_add(out, digest, sizeof digest);
}

static int damaged(err *e) { return err_set(e, ERR_FORMAT, "a damaged file of pages: it was cut off, or changed"); }

/* Whether the digest that follows is that of what has been read. */
static bool sum_is_right(cursor *c)
{
    uint8_t digest[SHA256_BYTES];
    const size_t n = c->at;
    const span kept = cursor_take(c, SHA256_BYTES);
    if (c->bad) return false;
    sha256_of(c->p, n, digest);
    return memcmp(kept.p, digest, SHA256_BYTES) == 0;
}

int page_file_read_head(span head, uint64_t file_bytes, const page_shape *s, page_record *to, uint32_t most,
                        uint32_t *n, err *e)
{
    cursor c = cursor_of(head);
    *n = 0;
    const bool ours = span_eq(cursor_take(&c, sizeof magic), span_of(magic, sizeof magic));
    const int version = (int)cursor_uint(&c, 1) - '0';
    if (c.bad || !ours || version < 1 || version > 2)
        return err_set(e, ERR_FORMAT, "no file of pages that inferflow, or this version of it, has written");
    const span made_for = cursor_take(&c, SHA256_BYTES);
    bool same = !c.bad && version == version_of(s) && !memcmp(made_for.p, s->made_for, SHA256_BYTES);
    for (int g = 0; g < numbers_of(version); g++) same = cursor_u64(&c) == s->bytes[g] && same;
    const uint32_t count = cursor_u32(&c);
    if (c.bad || !cursor_has(&c, count, RECORD_BYTES)) return damaged(e);
    const span records = cursor_take(&c, (uint64_t)count * RECORD_BYTES);
    if (!sum_is_right(&c)) return damaged(e);
    if (!same)
        return err_set(e, ERR_NOT_FOUND,
                       "pages of another model, or computed with another --kv, --act or --devices: give another file");
    uint64_t at = c.at;
    cursor each = cursor_of(records);
    for (uint32_t i = 0; i < count; i++) {
        page_record r = {.offset = at};
        memcpy(r.name, cursor_take(&each, SHA256_BYTES).p, SHA256_BYTES);
        r.groups = cursor_u32(&each);
        memcpy(r.sum, cursor_take(&each, SHA256_BYTES).p, SHA256_BYTES);
        const uint64_t bytes = page_record_bytes(s, r.groups);
        if (r.groups & ~(uint32_t)(version == 2 ? PAGE_ALL : PAGE_ALL >> 1) || at > file_bytes ||
            bytes > file_bytes - at)
            return damaged(e);
        at += bytes;
        if (i < most) to[i] = r;
    }
    if (at != file_bytes) return damaged(e);
    *n = count;
    return OK;
}

bool page_record_holds(const page_record *r, const uint8_t *pages, uint64_t bytes)
{
    uint8_t digest[SHA256_BYTES];
    sha256_of(pages, bytes, digest);
    return memcmp(digest, r->sum, sizeof digest) == 0;
}
