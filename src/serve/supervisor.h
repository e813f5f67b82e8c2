/* supervisor.h - tells a service manager how the server is: the protocol of sd_notify(3), datagrams to the socket that
 * $NOTIFY_SOCKET names. Without one, nothing happens. */
#pragma once

/* "READY=1", "STOPPING=1", "STATUS=…": lines of the protocol. */
void supervisor_tell(const char *lines);
/* Milliseconds between signs of life that the manager asks for (half of $WATCHDOG_USEC); -1: none. */
int supervisor_interval(void);
