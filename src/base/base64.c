/* base64.c - see base64.h. */
#include "base/base64.h"

static int digit(uint8_t c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool base64_decode(span t, buf *out)
{
    size_t start = out->n;
    if (t.n % 4) return false;
    for (size_t i = 0; i < t.n; i += 4) {
        bool last = i + 4 == t.n;
        int pad = last && t.p[i + 3] == '=' ? (t.p[i + 2] == '=' ? 2 : 1) : 0;
        uint32_t v = 0;
        for (int k = 0; k < 4; k++) {
            int d = k >= 4 - pad ? 0 : digit(t.p[i + (size_t)k]);
            if (d < 0) {
                out->n = start;
                return false;
            }
            v = v << 6 | (uint32_t)d;
        }
        uint8_t b[3] = {(uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};
        if (!buf_add(out, b, (size_t)(3 - pad))) return false;
    }
    return true;
}

bool base64_encode(span s, buf *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < s.n; i += 3) {
        uint32_t v = (uint32_t)s.p[i] << 16 | (i + 1 < s.n ? (uint32_t)s.p[i + 1] << 8 : 0) |
                     (i + 2 < s.n ? s.p[i + 2] : 0u);
        char four[4] = {digits[v >> 18], digits[v >> 12 & 63], i + 1 < s.n ? digits[v >> 6 & 63] : '=',
                        i + 2 < s.n ? digits[v & 63] : '='};
        if (!buf_add(out, four, 4)) return false;
    }
    return true;
}
