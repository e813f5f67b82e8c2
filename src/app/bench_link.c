/* bench_link.c - see bench_link.h. Each pair of nodes is measured by the first of them, on this process's request, one
 * pair after another. */
#include "app/bench_link.h"

#include "engine/backend_list.h"
#include "net/link_speed.h"
#include "plan/devices.h"

#include <stdio.h>
#include <string.h>

enum { PEERS_MAX = 64 };

/* The nodes of a list of devices, each once. */
static int list_nodes(const char *devices, address to[PEERS_MAX], int *n, err *e)
{
#define X(name, options) {&name, NULL},
    static const backend_use backends[] = {BACKEND_LIST(X){NULL, NULL}};
#undef X
    device_list l;
    int rc = device_list_parse(&l, devices, backends, e);
    *n = 0;
    for (int i = 0; i < l.n && !rc; i++) {
        const char *node = device_at(&l, i)->node;
        bool known = !*node;
        for (int j = 0; j < i && !known; j++) known = !strcmp(node, device_at(&l, j)->node);
        if (!known) rc = address_parse(&to[(*n)++], node, false, e);
    }
    device_list_close(&l);
    return rc || *n ? rc : err_set(e, ERR_USAGE, "bench link: --peers is missing: HOST:PORT,...");
}

static void add_link(json *list, const char *a, const char *b, const link_speed *speed)
{
    json *row = json_add_object(list, NULL);
    json_add_str(row, "a", a);
    json_add_str(row, "b", b);
    json_add_num(row, "rtt_ms_p50", speed->rtt_p50 * 1e3);
    json_add_num(row, "rtt_ms_p99", speed->rtt_p99 * 1e3);
    json_add_num(row, "mbit_per_s", speed->bytes_per_s * 8e-6);
}

int bench_link(const char *peers, const char *devices, const char *key_file, json *root, err *e)
{
    address to[PEERS_MAX];
    peer_self self;
    int n, rc = peers && *peers ? address_list(to, PEERS_MAX, &n, peers, "--peers", e) : list_nodes(devices, to, &n, e);
    if (!rc && !key_file) rc = err_set(e, ERR_USAGE, "bench link: --key-file is missing");
    if (!rc) rc = peer_self_open(&self, key_file, e);
    self.me.inexact = true; /* nothing is computed */
    json *list = json_add_array(root, "links");
    for (int a = -1; a < n && !rc; a++)
        for (int b = a + 1; b < n && !rc; b++) {
            char from[TCP_NAME_MAX] = "here", name[TCP_NAME_MAX];
            link_speed speed;
            if (a >= 0) address_print(&to[a], from);
            address_print(&to[b], name);
            rc = link_measure(&speed, a < 0 ? NULL : &to[a], &to[b], &self, e);
            if (!rc) add_link(list, from, name, &speed);
        }
    return rc;
}

void bench_link_print(const json *root)
{
    printf("%-28s %-28s %10s %10s %12s\n", "from", "to", "rtt ms", "p99", "Mbit/s");
    for (const json *r = json_first(json_get(root, "links")); r; r = json_next(r))
        printf("%-28s %-28s %10.3f %10.3f %12.0f\n", json_str(json_get(r, "a"), ""), json_str(json_get(r, "b"), ""),
               json_num(json_get(r, "rtt_ms_p50"), 0), json_num(json_get(r, "rtt_ms_p99"), 0),
               json_num(json_get(r, "mbit_per_s"), 0));
}
