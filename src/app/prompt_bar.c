/* prompt_bar.c - see prompt_bar.h. */
#include "app/prompt_bar.h"

#include "base/clock.h"
#include "base/log.h"

static const double PATIENCE = 1; /* seconds */

void prompt_bar_show(engine *g, double began)
{
    engine_slot slot;
    if (clock_now() - began < PATIENCE || engine_slots(g, &slot, 1) != 1) return;
    log_progress("reading", "tokens", (unsigned long long)slot.past, (unsigned long long)slot.prompt_tokens + 1);
}
