/* grammar_vocab.h - a vocabulary for tests of grammars: every byte, some longer tokens, one that ends the text. */
#pragma once
#include "sample/grammar.h"

#include <stdlib.h>

enum { RIG_END = 256 };
static const char *const rig_words[] = {"",         "ab",  "abc",   "true",     "null",        "\":",  "{\"",
                                        "\",\"",    "\"}", "  ",    "12",       "0.5",         "\xc3", "\xa9\xc3",
                                        "\xe2\x82", "ha",  "hello", "\n  ",     "\\n",         "name", "\\u0",
                                        "}}",       "]]",  "[[",    "aaaaaaaa", "\xff[C]\xff", "<c>"};
enum { RIG_WORDS = sizeof rig_words / sizeof *rig_words, RIG_VOCAB = RIG_END + 1 + RIG_WORDS };

static inline void rig_bytes(void *ctx, int32_t id, buf *out)
{
    (void)ctx;
    if (id < RIG_END) buf_byte(out, (uint8_t)id);
    else if (id > RIG_END) buf_str(out, rig_words[id - RIG_END - 1]);
}

static inline token_trie *rig_trie(void)
{
    static token_trie *t;
    static const int32_t ends[] = {RIG_END};
    if (!t && token_trie_open(&t, &(trie_source){RIG_VOCAB, ends, 1, rig_bytes, NULL}, NULL)) abort();
    return t;
}
