/* base64.h - base64 (RFC 4648, padded), as it stands in tokenizer.json, in rank files and in replies. */
#pragma once
#include "base/buf.h"
#include "base/span.h"

/* Appends the bytes; false when malformed (then nothing is appended) or out of memory. */
bool base64_decode(span text, buf *out);
/* Appends the text of some bytes; false when out of memory. */
bool base64_encode(span bytes, buf *out);
