/* access.h - where the bytes are that an instruction names by an address. */
#pragma once
#include "tests/gpu/machine.h"

typedef enum { ACCESS_READ, ACCESS_WRITE, ACCESS_ATOMIC } access_kind;

/* The memory of bytes at an address, as lane l of an instruction sees it; SPACE_GENERIC for an address of any kind.
 * NULL after a fault: out of bounds, freed, of a device that may not be touched, or not a multiple of align. */
uint8_t *access_at(warp *w, int l, ptx_space space, uint64_t at, unsigned bytes, unsigned align, access_kind kind);
