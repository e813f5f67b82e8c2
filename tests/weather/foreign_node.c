/* foreign_node.c - a node of another version, for weather.py: it has the key, and speaks protocols that nobody else
 * does. foreign_node node --listen H:P --key-file F */
#include "net/door.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FOREIGN_MIN = 900, FOREIGN_MAX = 901 };

static bool has_room(void *ctx) { return (void)ctx, true; }
static void enter(void *ctx, peer *p) { (void)ctx, peer_close(p); }

int main(int argc, char **argv)
{
    const char *listen = "127.0.0.1:0", *key = NULL;
    const door_use use = {NULL, has_room, enter};
    char name[TCP_NAME_MAX];
    peer_self self;
    address at;
    door *d;
    err e = {0};
    for (int i = 1; i + 1 < argc; i++) {
        if (!strcmp(argv[i], "--listen")) listen = argv[i + 1];
        if (!strcmp(argv[i], "--key-file")) key = argv[i + 1];
    }
    int rc = address_parse(&at, listen, true, &e);
    if (!rc) rc = peer_self_open(&self, key ? key : "", &e);
    self.me.protocol_min = FOREIGN_MIN;
    self.me.protocol_max = FOREIGN_MAX;
    if (!rc) rc = door_open(&d, &at, &self, &use, &e);
    if (rc) {
        fprintf(stderr, "%s\n", e.msg);
        return 1;
    }
    address_print(&at, name);
    printf("listening on %s\n", name);
    fflush(stdout);
    for (;;) pause();
}
