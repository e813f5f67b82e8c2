/* utf8.c - see utf8.h. */
#include "base/utf8.h"

#include <string.h>

/* Bytes the lead byte promises, and the range of the second byte (the table that rules out overlong forms and
 * surrogates). */
static size_t lead(uint8_t c, uint8_t *lo, uint8_t *hi)
{
    *lo = 0x80;
    *hi = 0xbf;
    if (c < 0x80) return 1;
    if (c < 0xc2) return 0;
    if (c < 0xe0) return 2;
    if (c < 0xf0) {
        if (c == 0xe0) *lo = 0xa0;
        if (c == 0xed) *hi = 0x9f;
        return 3;
    }
    if (c > 0xf4) return 0;
    if (c == 0xf0) *lo = 0x90;
    if (c == 0xf4) *hi = 0x8f;
    return 4;
}

size_t utf8_valid_length(const uint8_t *p, size_t n)
{
    uint8_t lo, hi;
    size_t len = n ? lead(p[0], &lo, &hi) : 0;
    if (!len || len > n) return 0;
    if (len > 1 && (p[1] < lo || p[1] > hi)) return 0;
    for (size_t i = 2; i < len; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    return len;
}

uint32_t utf8_decode_long(const uint8_t *p, size_t n, size_t *len)
{
    size_t k = utf8_valid_length(p, n);
    *len = k ? k : 1;
    if (!k) return 0xfffd;
    if (k == 1) return p[0];
    uint32_t c = p[0] & (0x7fu >> k);
    for (size_t i = 1; i < k; i++) c = c << 6 | (p[i] & 0x3f);
    return c;
}

size_t utf8_encode(uint32_t c, uint8_t out[4])
{
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    size_t k = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = k; i-- > 1; c >>= 6) out[i] = (uint8_t)(0x80 | (c & 0x3f));
    out[0] = (uint8_t)((0xf00u >> k) | c);
    return k;
}

size_t utf8_ascii_run(const uint8_t *p, size_t n)
{
    size_t i = 0;
    for (uint64_t eight; i + 8 <= n; i += 8) {
        memcpy(&eight, p + i, 8);
        if (eight & 0x8080808080808080u) break;
    }
    while (i < n && p[i] < 0x80) i++;
    return i;
}

bool utf8_is_valid(span s)
{
    for (size_t i = 0; i < s.n;) {
        size_t k = utf8_valid_length(s.p + i, s.n - i);
        if (!k) return false;
        i += k;
        if (k == 1) i += utf8_ascii_run(s.p + i, s.n - i);
    }
    return true;
}

size_t utf8_incomplete_tail(span s)
{
    for (size_t back = 1; back <= 3 && back <= s.n; back++) {
        const uint8_t *p = s.p + s.n - back;
        if ((*p & 0xc0) == 0x80) continue;
        uint8_t lo, hi;
        size_t len = lead(*p, &lo, &hi);
        if (len <= back) return 0;
        return back < 2 || (p[1] >= lo && p[1] <= hi) ? back : 0;
    }
    return 0;
}

int utf8_unmark(span *text, const char *what, err *e)
{
    if (span_starts(*text, "\xef\xbb\xbf")) *text = span_of(text->p + 3, text->n - 3);
    if (!span_starts(*text, "\xff\xfe") && !span_starts(*text, "\xfe\xff")) return OK;
    return err_set(e, ERR_FORMAT, "%s: a byte order mark says that this is UTF-16: save it as UTF-8", what);
}
