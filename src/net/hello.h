/* hello.h - what two processes tell each other first, and whether they can work together.
 *
 * Each side sends a hello as the first frame of each connection; the one that dialled begins. The range of protocols
 * comes first, and a hello of another protocol is read no further, so that every version can refuse every other. Then:
 * both compute by the same ARITHMETIC (core/arithmetic.h), unless the leader runs with `--exact off`.
 *
 * A pair of processes has two connections: control and bulk. Both show the same random token, once, so a bulk
 * connection belongs to the process that opened the control connection. Where both sides name it in the handshake
 * (hello_name, protocol 4), the side that dials makes the token up, says both hellos at once and its first message
 * behind that on control: one round trip. Else the token comes with the reply on control. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>
#include <stdint.h>

enum { HELLO_TOKEN = 16, HELLO_DEVICES = 24, HELLO_NAME = 64 };
typedef enum { HELLO_CONTROL, HELLO_BULK } hello_role;
typedef enum { HELLO_WELCOME, HELLO_FULL, HELLO_UNKNOWN_TOKEN } hello_answer; /* of the side that was dialled */

/* What a process lends. */
typedef struct hello_device {
    char name[HELLO_NAME]; /* in the notation of devices: "cpu", "cuda:0" */
    char what[HELLO_NAME]; /* "AMD EPYC 9R14" */
    uint64_t bytes;        /* for weights, pages and buffers */
    uint32_t threads;      /* 0: not of this kind */
} hello_device;

typedef struct hello {
    uint16_t protocol_min, protocol_max;
    uint64_t node;        /* random, kept while the process runs; shown as 16 hex digits */
    uint32_t arithmetic;  /* ARITHMETIC */
    bool inexact;         /* --exact off */
    uint8_t role, answer; /* hello_role, hello_answer */
    uint32_t silence_ms;  /* after which the other side is taken for dead (--peer-timeout) */
    uint8_t token[HELLO_TOKEN];
    char pretended_speed[HELLO_NAME]; /* node --as; "": as fast as it is */
    uint32_t n_device;
    hello_device device[HELLO_DEVICES];
} hello;

/* A hello of this process, which lends nothing and is content with everything yet. ERR_IO: no random numbers. */
int hello_init(hello *h, err *e);
/* Appends the payload of a HELLO. False: out of memory. */
bool hello_write(buf *out, const hello *h);
/* The name of protocol 4 in a handshake (tls_open); NULL: this hello does not speak it. */
const char *hello_name(const hello *mine);
/* Reads one. ERR_FORMAT. A hello of protocols that this process does not speak has the range only. */
int hello_read(hello *h, span payload, err *e);
/* Whether `mine` and `theirs` fit: ERR_FORMAT with what is wrong with theirs, without a name in front. `i_dialled`
 * tells whose --exact counts. */
int hello_check(const hello *mine, const hello *theirs, bool i_dialled, err *e);
/* Fills p with random bytes. */
int hello_random(void *p, size_t n, err *e);
