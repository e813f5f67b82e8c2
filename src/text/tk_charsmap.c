/* tk_charsmap.c - see tk_charsmap.h. The array's layout is that of Darts-clone (Yata 2008): a unit holds offset, label
 * and a leaf flag; the unit of a leaf holds the value. */
#include "text/tk_charsmap.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <string.h>

int charsmap_open(charsmap *m, span blob, err *e)
{
    *m = (charsmap){0};
    if (blob.n == 0) return OK;
    cursor c = cursor_of(blob);
    uint32_t bytes = cursor_u32(&c);
    if (c.bad || bytes % 4 || bytes == 0 || bytes >= blob.n - 4)
        return err_set(e, ERR_FORMAT, "precompiled character map of %zu bytes: bad size of its array", blob.n);
    if (!utf8_is_valid(span_of(blob.p + 4 + bytes, blob.n - 4 - bytes)))
        return err_set(e, ERR_FORMAT, "precompiled character map: its texts are not UTF-8");
    m->blob = mem_alloc(blob.n);
    if (!m->blob) return err_memory(e, "the character map");
    memcpy(m->blob, blob.p, blob.n);
    m->unit = m->blob + 4;
    m->units = bytes / 4;
    m->texts = span_of(m->blob + 4 + bytes, blob.n - 4 - bytes);
    return OK;
}

void charsmap_free(charsmap *m)
{
    mem_free(m->blob);
    *m = (charsmap){0};
}

static uint32_t unit_at(const charsmap *m, uint32_t i)
{
    if (i >= m->units) return 0;
    uint32_t u;
    memcpy(&u, m->unit + (size_t)i * 4, 4);
    return u;
}

static uint32_t offset_of(uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); }

static bool text_at(const charsmap *m, uint32_t value, span *out)
{
    if (value >= m->texts.n) return false;
    const uint8_t *p = m->texts.p + value, *end = memchr(p, 0, m->texts.n - value);
    if ((*p & 0xc0) == 0x80) return false; /* inside a character */
    *out = span_of(p, end ? (size_t)(end - p) : m->texts.n - value);
    return true;
}

static size_t walk_trie(const charsmap *m, span s, bool longest, span *replacement)
{
    if (!m->units) return 0;
    size_t found = 0;
    uint32_t at = offset_of(unit_at(m, 0));
    for (size_t i = 0; i < s.n; i++) {
        at ^= s.p[i];
        uint32_t u = unit_at(m, at);
        if (at >= m->units || (u & (1u << 31 | 0xff)) != s.p[i]) break;
        at ^= offset_of(u);
        if (!(u >> 8 & 1)) continue;                              /* no key ends here */
        if (i + 1 < s.n && (s.p[i + 1] & 0xc0) == 0x80) continue; /* nor may it, inside a character */
        if (at >= m->units || !text_at(m, unit_at(m, at) & 0x7fffffff, replacement)) break;
        found = i + 1;
        if (!longest) break;
    }
    return found;
}

size_t charsmap_longest(const charsmap *m, span s, span *replacement) { return walk_trie(m, s, true, replacement); }
size_t charsmap_shortest(const charsmap *m, span s, span *replacement) { return walk_trie(m, s, false, replacement); }

bool charsmap_open_ended(const charsmap *m, span s)
{
    if (!m->units) return false;
    uint32_t at = offset_of(unit_at(m, 0));
    for (size_t i = 0; i < s.n; i++) {
        at ^= s.p[i];
        uint32_t u = unit_at(m, at);
        if (at >= m->units || (u & (1u << 31 | 0xff)) != s.p[i]) return false;
        at ^= offset_of(u);
    }
    return true;
}
