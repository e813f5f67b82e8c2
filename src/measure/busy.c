/* busy.c - see busy.h. */
#include "measure/busy.h"

#include "base/mem.h"
#include "plan/devices.h"

int busy_open(busy_marks *m, const engine *g, err *e)
{
    *m = (busy_marks){.of = mem_array(DEVICES_MAX, sizeof *m->of)};
    if (!m->of) return err_memory(e, "times of devices");
    busy_mark(m, g);
    return OK;
}

void busy_close(busy_marks *m)
{
    mem_free(m->of);
    *m = (busy_marks){0};
}

void busy_mark(busy_marks *m, const engine *g) { m->n = engine_devices(g, m->of, DEVICES_MAX); }

double busy_of(const busy_marks *m, const engine *g, int i) { return engine_busy(g, i) - m->of[i].busy; }

double busy_rest(const busy_marks *m, const engine *g, double seconds)
{
    double all = 0, longest = 0;
    for (int i = 0, next; i < m->n; i = next) {
        double most = 0;
        for (next = i; next < m->n && m->of[next].group == m->of[i].group; next++) {
            const double busy = busy_of(m, g, next);
            most = busy > most ? busy : most;
        }
        all += most;
        longest = most > longest ? most : longest;
    }
    const double explained = all <= seconds ? all : longest;
    return explained < seconds ? 1 - explained / seconds : 0;
}

const char *busy_as(const busy_marks *m)
{
    const char *as = NULL;
    for (int i = 0; i < m->n && !as; i++) as = m->of[i].pretended_speed;
    return as;
}
