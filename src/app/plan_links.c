/* plan_links.c - see plan_links.h. */
#include "app/plan_links.h"

#include "base/mem.h"
#include "net/link_speed.h"
#include "plan/devices.h"

#include <stdio.h>
#include <string.h>

/* The node of a device, "a:7071"; "": here. */
static void node_of(const engine_device *d, char to[TCP_NAME_MAX])
{
    const char *slash = strchr(d->name, '/');
    snprintf(to, TCP_NAME_MAX, "%.*s", slash ? (int)(slash - d->name) : 0, d->name);
}

static bool is_listed(const json *list, const char *a, const char *b)
{
    for (const json *l = json_first(list); l; l = json_next(l)) {
        const char *x = json_str(json_get(l, "a"), ""), *y = json_str(json_get(l, "b"), "");
        if ((!strcmp(x, a) && !strcmp(y, b)) || (!strcmp(x, b) && !strcmp(y, a))) return true;
    }
    return false;
}

static int add_link(json *list, const char *a, const char *b, const peer_self *self, err *e)
{
    address from, to;
    link_speed speed;
    int rc = address_parse(&to, b, false, e);
    if (!rc && *a) rc = address_parse(&from, a, false, e);
    if (!rc) rc = link_measure(&speed, *a ? &from : NULL, &to, self, e);
    if (rc) return rc;
    json *row = json_add_object(list, NULL);
    json_add_str(row, "a", *a ? a : "here");
    json_add_str(row, "b", b);
    json_add_num(row, "rtt_ms", speed.rtt_p50 * 1e3);
    json_add_num(row, "mbit_per_s", speed.bytes_per_s * 8e-6);
    return OK;
}

int plan_links(const engine *g, const char *key_file, json *root, err *e)
{
    json *list = json_add_array(root, "links");
    engine_device *all = mem_array(DEVICES_MAX, sizeof *all);
    const int n = all ? engine_devices(g, all, DEVICES_MAX) : 0;
    peer_self self;
    int rc = all ? OK : err_memory(e, "a list of links");
    if (!rc && key_file) rc = peer_self_open(&self, key_file, e);
    self.me.inexact = true; /* nothing is computed */
    for (int i = 0; i < n && key_file; i++)
        for (int j = i + 1; j < n && !rc && all[j].group - all[i].group < 2; j++) {
            char a[TCP_NAME_MAX], b[TCP_NAME_MAX];
            node_of(&all[i], a);
            node_of(&all[j], b);
            const bool swaps = !*b;
            const char *x = swaps ? b : a, *y = swaps ? a : b;
            if (strcmp(a, b) && !is_listed(list, *x ? x : "here", y)) rc = add_link(list, x, y, &self, e);
        }
    mem_free(all);
    return rc;
}
