/* signal_word.h - a number that some threads move and others wait for: they spin briefly, then sleep in the kernel. */
#pragma once
#include <stdbool.h>

enum { SIGNAL_SPINS = 1500 }; /* where a core waits for nothing else */

/* Alone in its cache line. Cleared memory is a valid one. */
typedef struct signal_word {
    unsigned value __attribute__((aligned(64)));
    unsigned sleepers;
} signal_word;

/* The number now. What a mover wrote before it moved the number is visible. */
static inline unsigned signal_now(const signal_word *w) { return __atomic_load_n(&w->value, __ATOMIC_ACQUIRE); }

/* Returns when the number is another than `old`; whether it had to sleep after so many looks, 50 ns each. */
bool signal_wait(signal_word *w, unsigned old, int spins);
/* The same, but for so many seconds at most. */
bool signal_wait_for(signal_word *w, unsigned old, int spins, double seconds);

/* Adds one to the number and wakes all who wait. */
void signal_move(signal_word *w);
