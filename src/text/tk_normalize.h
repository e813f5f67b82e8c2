/* tk_normalize.h - normalizers: text to text, before it is cut into words.
 *
 * A tokenizer has a list of steps that run one after the other. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"
#include "text/tk_charsmap.h"
#include "text/tk_regex.h"
#include "text/tk_trie.h"
#include "text/tk_unicode.h"

typedef enum {
    NORM_FORM,          /* NFC, NFD, NFKC, NFKD */
    NORM_LOWER,         /* full lower case */
    NORM_STRIP,         /* white space at the ends */
    NORM_STRIP_ACCENTS, /* marks */
    NORM_REPLACE,       /* every match of a pattern */
    NORM_PREPEND,       /* a text in front of what is not empty */
    NORM_NMT,           /* control characters and odd spaces */
    NORM_BERT_CLEAN,    /* BertNormalizer.clean_text */
    NORM_BERT_CHINESE,  /* spaces around CJK ideographs */
    NORM_BERT_ACCENTS,  /* nonspacing marks, after NFD */
    NORM_CHARSMAP,      /* Precompiled: by grapheme clusters */
    NORM_BYTES,         /* ByteLevel: every byte as a printable character */
    NORM_SENTENCEPIECE  /* the whole of SentencePiece's normalizer */
} norm_kind;

typedef struct norm_step {
    norm_kind kind;
    uc_form form;
    bool left, right; /* NORM_STRIP */
    regex *pattern;   /* NORM_REPLACE, owned; NULL: `from` is one plain text */
    span from, to;    /* NORM_REPLACE, NORM_PREPEND (to); owned by the tokenizer's arena */
    charsmap map;     /* NORM_CHARSMAP, NORM_SENTENCEPIECE */
    /* NORM_SENTENCEPIECE */
    bool add_space;   /* add_dummy_prefix */
    bool first_only;  /* but not after a special token ("legacy": false) */
    bool trim;        /* remove_extra_whitespaces */
    bool escape;      /* escape_whitespaces: spaces become U+2581 */
    bool space_after; /* treat_whitespace_as_suffix */
    const trie *user; /* user-defined symbols pass unchanged; NULL: none */
} norm_step;

enum { NORM_STEPS_MAX = 32 };

typedef struct normalizer {
    norm_step step[NORM_STEPS_MAX];
    int n;
} normalizer;

void normalizer_free(normalizer *m);

typedef struct norm_work {
    buf text[2];
} norm_work;
void norm_work_free(norm_work *w);

/* Normalizes `in` (valid UTF-8). first: it begins the input. *out is `in` itself or a buffer of `w`, valid until the
 * next call. *moved: characters at the front were removed, so that the result does not begin where `in` begins. */
int normalizer_run(const normalizer *m, norm_work *w, regex_work *rx, span in, bool first, span *out, bool *moved,
                   err *e);

/* One step, appended to *out. For SentencePiece's denormalizer and for tests. */
int norm_step_run(const norm_step *st, regex_work *rx, span in, bool first, buf *out, err *e);

/* SentencePiece's map without its treatment of spaces, on a stream: appends the part of the result that later text
 * cannot change, or all of it if `last`; returns how many bytes of `in` were used. */
size_t norm_map_stream(const charsmap *m, span in, bool last, buf *out);
