/* glob.h - names by pattern: '*' stands for any run of characters, everything else for itself. */
#pragma once
#include "base/span.h"

static inline bool glob_match(span pattern, const char *name)
{
    size_t p = 0, star = SIZE_MAX;
    const char *back = name;
    while (*name) {
        if (p < pattern.n && pattern.p[p] == '*') star = p++, back = name;
        else if (p < pattern.n && pattern.p[p] == (uint8_t)*name) p++, name++;
        else if (star != SIZE_MAX) p = star + 1, name = ++back;
        else return false;
    }
    while (p < pattern.n && pattern.p[p] == '*') p++;
    return p == pattern.n;
}
