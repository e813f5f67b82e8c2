/* tk_charsmap.h - SentencePiece's precompiled character map: byte strings and what each is replaced by.
 *
 * The blob is: u32 size of a double array in bytes | the double array (Darts) | NUL-terminated replacements. It comes
 * from files, so every step through the array is checked. */
#pragma once
#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct charsmap {
    uint8_t *blob;       /* owned; {0} is the empty map */
    const uint8_t *unit; /* u32 little-endian, any alignment */
    uint32_t units;
    span texts;
} charsmap;

/* Copies the blob. An empty blob is an empty map. */
int charsmap_open(charsmap *m, span blob, err *e);
void charsmap_free(charsmap *m);

/* The longest (or the shortest) key that is a prefix of s: its length, 0 when there is none, and its replacement. */
size_t charsmap_longest(const charsmap *m, span s, span *replacement);
size_t charsmap_shortest(const charsmap *m, span s, span *replacement);
/* Whether s is the beginning of a key, so that more text could make a longer match. */
bool charsmap_open_ended(const charsmap *m, span s);
