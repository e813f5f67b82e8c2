/* tls.h - one connection under TLS 1.3 with a pre-shared key (RFC 8446, psk_dhe_ke): GnuTLS behind six calls.
 *
 * There is no certificate and no connection without encryption: who cannot prove that he has the key gets no further
 * than the handshake. Keys of a connection are ephemeral (X25519), so what was recorded can be neither read nor
 * replayed. No call blocks: each returns OK, a positive "wait for the socket", or an error.
 *
 * Threads: one may receive while one sends. */
#pragma once
#include "base/err.h"
#include "base/span.h"
#include "net/key_file.h"

enum { TLS_RECORD = 16384 };                /* bytes of a record at most */
enum { TLS_AROUND = 22 };                   /* bytes that a record has more on its way: head, kind and tag */
enum { TLS_WAIT_READ = 1, TLS_WAIT_WRITE }; /* not done: call again when the socket can be read, written */

typedef struct tls tls;

/* Takes a connected non-blocking socket, also when it fails. `server`: the side that was dialled. `name`: of what is
 * spoken, told in the handshake (ALPN, RFC 7301), so that who dials knows before the first message what the other side
 * understands; NULL: none. */
int tls_open(tls **out, int fd, bool server, const uint8_t key[KEY_BYTES], const char *name, err *e);
/* One step of the handshake. ERR_FORMAT: the key is not accepted, or the other side speaks something else; ERR_IO: the
 * connection ended. */
int tls_shake(tls *c, err *e);
/* After the handshake, of either side: whether both gave the same name. */
bool tls_named(const tls *c);
/* Of the side that was dialled, while tls_shake waits: whether the first message of the other side showed the key. */
bool tls_knows(const tls *c);
/* The next record, valid until the next call; an empty one: the other side has ended the connection. */
int tls_recv(tls *c, span *record, err *e);
/* Sends p as one record, n <= TLS_RECORD. While it returns TLS_WAIT_WRITE it must be called again with the same. */
int tls_send(tls *c, const void *p, size_t n, err *e);
/* Tells the other side that nothing more comes. Must not run beside tls_send. */
void tls_bye(tls *c);
/* Ends both directions at once: waiting threads wake up and their calls fail. From any thread. */
void tls_cut(tls *c);
void tls_close(tls *c); /* NULL ok */

int tls_socket(const tls *c);
/* Bytes that left by the socket so far; those just being sent count. */
uint64_t tls_bytes_out(const tls *c);
