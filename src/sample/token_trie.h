/* token_trie.h - the bytes of all tokens of a vocabulary as a trie. Masks of grammars are made from it (grammar.c).
 *
 * Children of a node lie side by side, level by level: a walk that turns away from most nodes reads few lines of
 * memory. The tokens of a subtree lie side by side too, in the order of their bytes.
 *
 * A special token, which is no text, stands in it as 0xff, its name, 0xff: bytes that no text has, so that only a
 * grammar which names the token allows it. Tokens that end a text, and those without bytes, are not in it. */
#pragma once
#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

enum { TRIE_MARK = 0xff };

/* Bytes by which whole subtrees are compared with what a state of a grammar lets pass: one bit each of the letters;
 * of digits, blank, quote, backslash, … together. */
enum { BUCKET_INVALID = 62, BUCKET_BEYOND_ASCII = 63 };
int trie_bucket(uint8_t byte); /* of ASCII */

typedef struct trie_node {
    uint32_t child;       /* the first of its children */
    uint32_t first, last; /* the tokens of its subtree: id[first] … id[last - 1] */
    uint16_t n_child;
    uint8_t byte;
    uint8_t height;   /* bytes of its longest token from its own on */
    uint64_t buckets; /* of the bytes from its own on, if a character begins with it; else BUCKET_INVALID is set */
} trie_node;

typedef struct token_trie {
    trie_node *node; /* [n_node] node 0 is the root */
    uint32_t n_node;
    int32_t *id; /* tokens in the order of their bytes */
    int32_t n_vocab;
    size_t n_word;     /* of a mask: (n_vocab + 63) / 64 */
    uint8_t *bytes;    /* of all tokens */
    uint32_t *start;   /* [n_vocab + 1] where those of an id begin; none: it is not in the trie */
    uint64_t *buckets; /* [n_vocab] of all bytes of an id */
    uint8_t *chars;    /* [n_vocab] characters of an id; one that is cut at the end counts */
    int most_chars;
    int32_t ends[16];
    int n_end; /* tokens that end a text */
} token_trie;

/* The token that ends at the node has the ids from `first` to this one. */
static inline uint32_t trie_own_end(const token_trie *t, const trie_node *x)
{
    return x->n_child ? t->node[x->child].first : x->last;
}

typedef struct trie_source {
    int32_t n_vocab;
    const int32_t *ends; /* at most 16 */
    int n_end;
    /* Appends the bytes of a token, as above; none: it is never allowed. */
    void (*bytes)(void *ctx, int32_t id, buf *out);
    void *ctx;
} trie_source;

enum { TRIE_TOKEN_BYTES = 254 }; /* longer tokens are never allowed */

int token_trie_open(token_trie **out, const trie_source *from, err *e);
bool token_trie_has(const token_trie *t, span bytes); /* whether a token has these bytes */
void token_trie_close(token_trie *t);                 /* NULL ok */
