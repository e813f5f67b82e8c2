/* access.h - where the bytes are that an instruction names by an address. */
#pragma once
#include "tests/gpu/race.h"

/* The memory of bytes at an address, as lane l of an instruction sees it; SPACE_GENERIC for an address of any kind.
 * NULL after a fault: out of bounds, freed, of a device that may not be touched, not a multiple of align, or a race.
 * touch: TOUCH_READ ... */
uint8_t *access_at(warp *w, int l, ptx_space space, uint64_t at, unsigned bytes, unsigned align, int touch);

/* The same for lanes of mask: at[l] the addresses, p[l] the memory. False after a fault. */
bool access_lanes(warp *w, uint32_t mask, ptx_space space, const uint64_t at[LANES], unsigned bytes, int touch,
                  uint8_t *p[LANES]);
