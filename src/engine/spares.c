/* spares.c - see spares.h. */
#include "engine/spares.h"

#include <string.h>

bool spares_any(const device_list *l)
{
    bool any = false;
    for (int i = 0; i < l->n; i++) any = any || l->chosen[i];
    return any;
}

bool spares_exist(const device_list *l) { return l->first[l->n] > l->n; }

static bool turn_to_spare(device_list *l, span node)
{
    bool any = false;
    for (int i = 0; i < l->n; i++) {
        const int n = device_alternatives(l, i);
        if (n == 1 || !span_is(node, device_at(l, i)->node)) continue;
        l->chosen[i] = (l->chosen[i] + 1) % n;
        any = true;
    }
    return any;
}

bool spares_turn(device_list *l, const char *who)
{
    bool any = false;
    for (size_t n; *who && !any; who += n + (who[n] != 0)) {
        n = strcspn(who, " ");
        any = turn_to_spare(l, span_of(who, n));
    }
    return any;
}
