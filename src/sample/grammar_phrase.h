/* grammar_phrase.h - what a grammar allows, as phrases over bytes and named rules: the form that GBNF, JSON schemas
 * and regular expressions are read into, and of which grammar.c makes the automaton.
 *
 * Phrases may be shared: they are a graph without circles; only rules recur. All live in one arena. Building is
 * bounded in memory and in time; the first failure stays, and every constructor gives NULL after it, so that readers
 * check once at the end. */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "base/span.h"

typedef struct byte_set {
    uint64_t bit[4];
} byte_set;

static inline bool byte_set_has(const byte_set *s, unsigned byte) { return s->bit[byte >> 6] >> (byte & 63) & 1; }
static inline void byte_set_add(byte_set *s, unsigned from, unsigned to)
{
    for (unsigned i = from; i <= to; i++) s->bit[i >> 6] |= UINT64_C(1) << (i & 63);
}

typedef enum {
    PHRASE_NEVER, /* no text at all */
    PHRASE_TEXT,  /* these bytes, perhaps none */
    PHRASE_SET,   /* one byte of a set */
    PHRASE_SEQUENCE,
    PHRASE_CHOICE,
    PHRASE_REPEAT,
    PHRASE_COMMON, /* the texts that two phrases without rules have in common */
    PHRASE_RULE
} phrase_kind;

typedef struct phrase phrase;
struct phrase {
    phrase_kind kind;
    span text;
    byte_set set;
    phrase **item; /* [n]: of a sequence or choice; two of what is common; of a repetition, one */
    size_t n;
    int64_t min, max; /* of a repetition; max -1: any number */
    uint32_t rule;
};

typedef struct grammar_rule {
    span name;
    phrase *body;       /* NULL: named, but not defined */
    const char *needed; /* what is told where this rule derives no text, even if the root has other texts; "": its
                           name; NULL: it need not derive any */
} grammar_rule;

enum { GRAMMAR_BYTES_MAX = 64 << 20, GRAMMAR_SECONDS_MAX = 1 };

typedef struct grammar_builder {
    arena mem;
    grammar_rule *rule;
    size_t n_rule, cap_rule;
    map names;       /* rule by name */
    double deadline; /* clock_now */
    unsigned steps;
    err *e;
} grammar_builder;

void grammar_builder_open(grammar_builder *b, err *e);
void grammar_builder_close(grammar_builder *b);
/* Whether building may go on: no error yet, and neither time nor memory (of `more` bytes besides the arena) is used
 * up. */
bool grammar_builder_good(grammar_builder *b, size_t more);

/* The number of the rule of that name, which is made if there is none; the name is copied. */
uint32_t grammar_rule_named(grammar_builder *b, span name);
uint32_t grammar_rule_new(grammar_builder *b, span name, phrase *body); /* one that cannot be named elsewhere */

phrase *phrase_never(grammar_builder *b);
phrase *phrase_text(grammar_builder *b, span text); /* copied */
phrase *phrase_string(grammar_builder *b, const char *text);
phrase *phrase_set(grammar_builder *b, byte_set set);
phrase *phrase_range(grammar_builder *b, unsigned from, unsigned to); /* one byte */
phrase *phrase_rule(grammar_builder *b, uint32_t rule);
phrase *phrase_repeat(grammar_builder *b, phrase *x, int64_t min, int64_t max);
/* A sequence or choice of none so far; phrase_add returns the list. */
phrase *phrase_list(grammar_builder *b, phrase_kind kind);
phrase *phrase_add(grammar_builder *b, phrase *list, phrase *x);
phrase *phrase_both(grammar_builder *b, phrase *x, phrase *y);   /* x, then y */
phrase *phrase_either(grammar_builder *b, phrase *x, phrase *y); /* x or y */
phrase *phrase_common(grammar_builder *b, phrase *x, phrase *y); /* what is x and y at once; neither calls a rule */
/* The phrase as a rule without which the grammar is refused; what is told then is copied. */
phrase *phrase_needed(grammar_builder *b, phrase *x, const char *otherwise);

/* Characters: sets of code points as ranges. */
typedef struct char_range {
    uint32_t from, to;
} char_range;
enum { CHAR_MAX_CODE = 0x10ffff };
typedef struct char_class {
    char_range *p; /* sorted, apart, without surrogates once char_class_close was called */
    size_t n, cap;
} char_class;
/* Arrays lie in the builder's arena. False: it failed. */
bool char_class_add(grammar_builder *b, char_class *c, uint32_t from, uint32_t to);
bool char_class_close(grammar_builder *b, char_class *c, bool negated);
/* One character of a closed class, in UTF-8. */
phrase *phrase_class(grammar_builder *b, const char_class *c);
