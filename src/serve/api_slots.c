/* api_slots.c - GET /slots: how far each query of the engine is; never its text. */
#include "base/mem.h"
#include "serve/api_list.h"
#include "serve/server.h"

enum { SLOTS_MAX = 4096 };

static void handle_slots(server *s, exchange *x)
{
    static const char *const state[] = {"waiting", "running", "paused"};
    engine_slot *all = mem_array(SLOTS_MAX, sizeof *all);
    const int n = all ? engine_slots(s->g, all, SLOTS_MAX) : 0;
    x->status = 200;
    x->content_type = "application/json";
    x->out.bad = !all;
    buf_byte(&x->out, '[');
    for (int i = 0; i < n; i++)
        buf_printf(&x->out,
                   "%s{\"id\":%llu,\"state\":\"%s\",\"prompt_tokens\":%lld,\"cached_tokens\":%lld,\"past\":%lld,"
                   "\"generated\":%lld,\"priority\":%lld,\"seconds\":%.3f}",
                   i ? "," : "", (unsigned long long)all[i].id, state[all[i].state], (long long)all[i].prompt_tokens,
                   (long long)all[i].cached_tokens, (long long)all[i].past, (long long)all[i].generated,
                   (long long)all[i].priority, all[i].seconds);
    buf_byte(&x->out, ']');
    mem_free(all);
}

const route route_slots = {.method = "GET", .path = "/slots", .needs_engine = true, .handle = handle_slots};
