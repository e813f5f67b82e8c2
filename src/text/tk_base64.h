/* tk_base64.h - base64 (RFC 4648, padded), as it stands in tokenizer.json and in rank files. */
#ifndef TEXT_TK_BASE64_H
#define TEXT_TK_BASE64_H
#include "base/buf.h"
#include "base/span.h"

/* Appends the bytes; false when malformed (then nothing is appended) or out of memory. */
bool base64_decode(span text, buf *out);

#endif
