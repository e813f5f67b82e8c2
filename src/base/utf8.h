/* utf8.h - UTF-8, strictly (Unicode 15, table 3-7): no overlong forms, no surrogates, nothing above U+10FFFF. */
#pragma once
#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length in bytes (1..4) of the valid character that starts at p, 0 when there is none. */
size_t utf8_valid_length(const uint8_t *p, size_t n);

/* The character at p and its length in *len. Invalid bytes give U+FFFD with *len = 1 ("one per byte"). n must be >
 * 0. */
uint32_t utf8_decode_long(const uint8_t *p, size_t n, size_t *len); /* the same, for what is not ASCII too */
static inline uint32_t utf8_decode(const uint8_t *p, size_t n, size_t *len)
{
    if (p[0] >= 0x80) return utf8_decode_long(p, n, len);
    *len = 1;
    return p[0];
}

/* Bytes of ASCII at the start of s. */
size_t utf8_ascii_run(const uint8_t *p, size_t n);

/* Writes a character (1..4 bytes) to out; returns its length. */
size_t utf8_encode(uint32_t c, uint8_t out[4]);

bool utf8_is_valid(span s);

/* The text without the byte order mark that some editors put before it. ERR_FORMAT: a mark says that its characters
 * have 16 or 32 bits. `what`: the file's name. */
int utf8_unmark(span *text, const char *what, err *e);

/* How many bytes at the end of s are the beginning of a character that is not complete yet (0..3): what a streaming
 * detokenizer holds back. */
size_t utf8_incomplete_tail(span s);
