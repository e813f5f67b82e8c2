/* tk_base64.c - see tk_base64.h. */
#include "text/tk_base64.h"

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
