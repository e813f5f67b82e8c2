/* key_file.h - the key that a leader shares with its nodes: 32 random bytes, in a file as 64 hex digits.
 *
 * Who has the key may use the devices of every node that has it, so a file that others may read is refused. */
#pragma once
#include "base/err.h"

#include <stdint.h>

enum { KEY_BYTES = 32 };

/* Reads a key; spaces and line ends after the digits are allowed. ERR_NOT_FOUND, ERR_IO; ERR_FORMAT: no key, or one
 * that others may read. Messages name the file. */
int key_file_read(uint8_t key[KEY_BYTES], const char *path, err *e);

/* Writes a new random key with mode 0600. A file that is there stays as it is: ERR_IO. */
int key_file_write(const char *path, err *e);
