/* tk_decode.h - decoders: tokens back to text, as a chain of steps that works on a stream.
 *
 * There is one implementation: decoding a whole list is feeding the stream and finishing it, so both give the same
 * text. A step gets tokens one by one; once a step has joined them (Fuse, ByteLevel) the steps after it get the parts
 * of one long token, and a step that must see it whole (rare) collects it. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "text/tk_normalize.h"
#include "text/tk_vocab.h"

typedef enum {
    DECODE_BYTE_LEVEL,    /* printable characters -> bytes -> text; what is not UTF-8 becomes U+FFFD */
    DECODE_BYTES,         /* pieces are bytes already (tiktoken) */
    DECODE_BYTE_FALLBACK, /* runs of <0xXX> -> text, or one U+FFFD per byte when the run is not UTF-8 */
    DECODE_FUSE,          /* joins all tokens */
    DECODE_STRIP,         /* up to `start` and `stop` characters `sign` at the ends of each token */
    DECODE_REPLACE,       /* a normalization step on each token */
    DECODE_METASPACE,     /* sign -> space, but nothing in the first token */
    DECODE_WORDPIECE,     /* "##x" is joined, anything else gets a space in front */
    DECODE_SUFFIX,        /* "</w>" -> space, but nothing in the last token */
    DECODE_CTC,           /* repeated tokens once, padding away */
    DECODE_JOIN,          /* a space between tokens: files without a decoder */
    DECODE_SENTENCEPIECE, /* sentencepiece's own */
    DECODE_MARIAN,        /* sentencepiece's, with special tokens shown and a space after each */
    DECODE_M2M100,        /* the same without the space */
    DECODE_TRIM,          /* white space at the ends of the whole text */
    DECODE_LLAMA2C        /* run.c's: a space right after BOS vanishes, <0xXX> is a byte */
} decode_kind;

typedef struct decode_step {
    decode_kind kind;
    span text;          /* prefix (WORDPIECE), suffix, padding (CTC), surface of unknown (SENTENCEPIECE) */
    span delimiter;     /* CTC */
    uint32_t sign;      /* STRIP, METASPACE */
    size_t start, stop; /* STRIP */
    bool cleanup;       /* WORDPIECE, CTC */
    bool first_differs; /* METASPACE, SENTENCEPIECE: text began with an added space */
    bool trim;          /* SENTENCEPIECE: all leading space signs go */
    norm_step replace;  /* REPLACE: any one normalization step, SentencePiece's denormalizer for one */
} decode_step;

enum { DECODE_STEPS_MAX = 16 };

typedef struct decoder {
    decode_step step[DECODE_STEPS_MAX];
    int n;
} decoder;

void decoder_free(decoder *d);

typedef struct decode_stage {
    buf hold;    /* bytes or text that is not certain yet */
    buf out;     /* the token handed on */
    size_t seen; /* tokens so far */
    bool collect, bytes, space_seen;
} decode_stage;

/* State of one stream; {0} with d, voc set. */
typedef struct decode_stream {
    const decoder *d;
    const vocab *voc;
    regex_work *rx; /* opened when a pattern needs it */
    decode_stage stage[DECODE_STEPS_MAX];
    int32_t before; /* the token before this one, shown or not */
    bool begun;     /* the tokens continue earlier text: nothing is special about the first one */
} decode_stream;

int decode_push(decode_stream *s, int32_t id, span piece, buf *out, err *e);
int decode_finish(decode_stream *s, buf *out, err *e);
void decode_stream_free(decode_stream *s);
