/* stop_text.c - see stop_text.h. Plain comparison: a handful of strings, a few new bytes per call. */
#include "text/stop_text.h"

#include <string.h>

bool stop_find(const char *const *stop, int n_stop, const char *text, size_t from, size_t seen, size_t n, bool after,
               size_t *cut)
{
    for (size_t end = seen > from ? seen : from; end <= n; end++) {
        bool found = false;
        for (int i = 0; i < n_stop; i++) {
            size_t len = strlen(stop[i]);
            if (len > end - from || memcmp(text + end - len, stop[i], len) != 0) continue;
            if (!found || end - len < *cut) *cut = end - len;
            found = true;
        }
        if (found && after) *cut = end;
        if (found) return true;
    }
    return false;
}

size_t stop_certain(const char *const *stop, int n_stop, const char *text, size_t from, size_t n)
{
    size_t certain = n;
    for (int i = 0; i < n_stop; i++) {
        size_t len = strlen(stop[i]), longest = len - 1 < n - from ? len - 1 : n - from;
        for (size_t k = longest; k > 0; k--)
            if (n - k < certain && memcmp(text + n - k, stop[i], k) == 0) certain = n - k;
    }
    return certain;
}
