/* interrupt.c - see interrupt.h. */
#include "app/interrupt.h"

#include <stddef.h>

volatile sig_atomic_t interrupted;

static void on_interrupt(int sig)
{
    (void)sig;
    interrupted = 1;
}

void interrupt_watch(void)
{
    struct sigaction sa = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART}; /* output must not fail by it */
    sigaction(SIGINT, &sa, NULL);
}
