/* idle_work.h - work that is done while there is nothing else to do, and that nobody should notice. */
#pragma once
#include <stdint.h>

/* Bytes a second that it reads at most. */
#define IDLE_RATE 134217728.0 /* 128 MiB */

void idle_begin(void); /* this thread comes last for processor and disk */
void idle_sleep(double seconds);
double idle_rest(uint64_t bytes); /* seconds from one reading of so much to the next: 100 times what it takes, >= 10 */
