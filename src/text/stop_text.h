/* stop_text.h - stop strings in text that arrives piece by piece.
 *
 * The first match to be complete ends the text, however it was cut into pieces: a stream shows the same text as a whole
 * reply, and never a part of a stop string. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* Looks for the strings in text[from … n), where everything before `seen` was looked at already. True: *cut is where
 * the first complete match starts (of several that end at the same byte, the longest); after: where it ends. */
bool stop_find(const char *const *stop, int n_stop, const char *text, size_t from, size_t seen, size_t n, bool after,
               size_t *cut);

/* How many bytes of text[from … n) can be shown now: the rest is the beginning of a stop string. */
size_t stop_certain(const char *const *stop, int n_stop, const char *text, size_t from, size_t n);
