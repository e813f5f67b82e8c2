/* spec_split.c - see spec_split.h. */
#include "models/spec/spec_split.h"

span span_trim(span s)
{
    while (s.n && (s.p[0] == ' ' || s.p[0] == '\t')) s.p++, s.n--;
    while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t')) s.n--;
    return s;
}

/* First position at which `hit` holds outside brackets and quotes. */
static size_t find_outside(span s, bool (*hit)(span s, size_t i, char c), char c)
{
    int depth = 0;
    uint8_t quote = 0;
    for (size_t i = 0; i < s.n; i++) {
        uint8_t b = s.p[i];
        if (quote) {
            if (b == quote) quote = 0;
        } else if (b == '"' || b == '\'') {
            quote = b;
        } else if (depth == 0 && hit(s, i, c)) {
            return i;
        } else if (b == '(' || b == '[' || b == '{') {
            depth++;
        } else if ((b == ')' || b == ']' || b == '}') && depth) {
            depth--;
        }
    }
    return SIZE_MAX;
}

static bool hit_char(span s, size_t i, char c) { return s.p[i] == (uint8_t)c; }

static bool hit_assign(span s, size_t i, char c)
{
    if (s.p[i] != (uint8_t)c) return false;
    if (i + 1 < s.n && s.p[i + 1] == '=') return false;
    return i == 0 || (s.p[i - 1] != '=' && s.p[i - 1] != '!' && s.p[i - 1] != '<' && s.p[i - 1] != '>');
}

bool split_next(span *rest, char c, span *part)
{
    if (!rest->p) return false;
    size_t n = find_outside(*rest, hit_char, c);
    if (n == SIZE_MAX) {
        *part = span_trim(*rest);
        *rest = (span){0};
    } else {
        *part = span_trim(span_of(rest->p, n));
        *rest = span_of(rest->p + n + 1, rest->n - n - 1);
    }
    return true;
}

size_t find_assign(span s) { return find_outside(s, hit_assign, '='); }
