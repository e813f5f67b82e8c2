/* race.h - two threads that touch one byte, one of them writing, with nothing between them that orders the two.
 *
 * What orders: barriers of a block and of a warp, for the threads that take part; a release that the other thread has
 * acquired, by the instruction itself or by fences around relaxed and volatile accesses. Atomic and other strong
 * accesses do not race with each other. Launches that ran at one time are ordered by nothing else; one that ended
 * before another began is before it. A scope that is too narrow for the other thread is not noticed. */
#pragma once
#include "tests/gpu/machine.h"

/* Bits of how bytes are touched. TOUCH_OVER, of a strong store: what was given away there before is so no more.
 * TOUCH_ASYNC: by the asynchronous proxy (proxy.h). TOUCH_CONSTANT: a read of what no kernel has written since the
 * launch began (ld.global.nc): nothing orders it with one that has. */
enum { TOUCH_READ = 1, TOUCH_WRITE = 2, TOUCH_STRONG = 4, TOUCH_OVER = 8, TOUCH_ASYNC = 16, TOUCH_CONSTANT = 32 };

/* The memory orders of an instruction: inst.order. ORDER_CONSTANT: of a load that is TOUCH_CONSTANT. */
enum { ORDER_WEAK, ORDER_RELAXED, ORDER_ACQUIRE, ORDER_RELEASE, ORDER_BOTH, ORDER_CONSTANT };

/* Who touched each word of some memory, and each byte where a word is touched in parts. */
typedef struct gpu_shadow gpu_shadow;
gpu_shadow *race_shadow_new(size_t bytes, bool of_block); /* of_block: each block begins with memory of its own */
void race_shadow_free(gpu_shadow *s);

/* SOFT_GPU_RACES=0 turns all this off. */
bool race_on(void);
void race_begin_launch(launch *l);
void race_end_launch(launch *l);
void race_begin_block(block *b);
void race_end_block(block *b);
/* Lane l touches bytes that begin at offset at of memory whose shadow is s: a fault where that is a race. */
void race_touch(warp *w, int l, gpu_shadow *s, uint64_t at, unsigned bytes, int touch);

/* The same for several lanes, each at its own offset. */
void race_touch_lanes(warp *w, uint32_t mask, gpu_shadow *s, const uint64_t at[LANES], unsigned bytes, int touch);

/* Lanes of a warp have met at a warp barrier. */
void race_warp_barrier(warp *w, uint32_t mask);
/* Lanes come to a block barrier; later they go on, knowing what all knew that had come. */
void race_arrive(warp *w, uint32_t mask, int id);
void race_go_on(warp *w, uint32_t mask, int id);
void race_barrier_done(block *b, int id);
/* Lanes have waited for the launches before: whatever has ended is behind them. */
void race_wait_before(warp *w, uint32_t mask);
/* A fence. */
void race_fence(warp *w, uint32_t mask);
/* A strong access to a variable at the address, after it has been carried out. */
void race_strong(warp *w, int l, uint64_t address, int touch, int order);
