/* tcp.h - addresses and sockets: dial, listen, accept. All sockets are non-blocking and send small writes at once. */
#pragma once
#include "base/err.h"

#include <stdbool.h>

enum { TCP_NAME_MAX = 280 };

/* "host:port" or "[v6]:port". */
typedef struct address {
    char host[256];
    int port;
} address;

/* ERR_USAGE quotes the text and says what is missing. Port 0 is taken only where `any_port` says so. */
int address_parse(address *out, const char *text, bool any_port, err *e);
/* Addresses with commas between; their number in *n, at most `most`. `flag` names the list in messages. */
int address_list(address *out, int most, int *n, const char *text, const char *flag, err *e);
/* As address_parse takes it. */
void address_print(const address *a, char text[TCP_NAME_MAX]);

/* Whether the name stands for this machine alone, wherever it is read. */
bool address_is_loopback(const address *a);

/* Connects within `seconds`: all addresses of the name are tried, each 250 ms after the one before or when that has
 * failed, and the first that answers is taken (RFC 8305, section 5). A descriptor, or ERR_IO with a message that names
 * the address. */
int tcp_dial(const address *a, double seconds, err *e);
/* Listens at all addresses of the name, at most TCP_DOORS, on one port; a->port becomes the port that was picked. How
 * many descriptors, or a negative code. */
enum { TCP_DOORS = 4 };
int tcp_listen(int fd[TCP_DOORS], address *a, err *e);
/* The next connection that waits, with the address of the other side; -1: none (errno says why). */
int tcp_accept(int listener, char from[TCP_NAME_MAX]);
bool tcp_has_bytes(int fd); /* or its end: a read would not wait */
/* The connection ends when what was sent stays unacknowledged for so long. */
void tcp_limit(int fd, double seconds);
/* Waits until the socket can be read (or written), or until it is `until` (clock_now; 0: does not wait): then false. */
bool tcp_wait(int fd, bool write, double until);
