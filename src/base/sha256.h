/* sha256.h - SHA-256 (FIPS 180-4), of bytes that come in any pieces. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_BLOCK = 64 };

typedef struct sha256 {
    uint32_t h[8];
    uint64_t n; /* bytes so far */
    uint8_t block[SHA256_BLOCK];
} sha256;

void sha256_init(sha256 *s);
void sha256_add(sha256 *s, const void *p, size_t n);
void sha256_end(sha256 *s, uint8_t digest[SHA256_BYTES]);

/* All at once. */
void sha256_of(const void *p, size_t n, uint8_t digest[SHA256_BYTES]);

/* The first n bytes of a digest as 2n lower-case digits and a NUL. */
void sha256_hex(const uint8_t *digest, size_t n, char *text);

/* What the instructions of processors replace: n blocks enter the state. The definition in C, and the fastest here. */
typedef void sha256_blocks(uint32_t h[8], const uint8_t *p, size_t n);
sha256_blocks sha256_blocks_c;
sha256_blocks *sha256_best(void);
