/* interrupt.h - Ctrl-C as a flag: it stops an answer and keeps the program. */
#pragma once
#include <signal.h>

extern volatile sig_atomic_t interrupted; /* set by SIGINT once it is watched; whoever has heard it clears it */
void interrupt_watch(void);
