/* expr.h - the one small language of specs: expressions over hyper-parameters, and formulas of modules.
 *
 *     value   = choice { "|" choice }                      the first that exists
 *     choice  = or [ "?" value ":" choice ]
 *     or      = and { "or" and }        and = not { "and" not }        not = [ "not" ] compare
 *     compare = sum [ ("==" "!=" "<" "<=" ">" ">=") sum ]
 *     sum     = term { ("+" "-") term }                    term = sign { ("*" "/" "%") sign }
 *     sign    = [ "-" ] power                              power = postfix [ "^" sign ]
 *     postfix = primary { "[" value "]" | "{" word ":" word, … "}" }
 *     primary = number | "text" | true | false | name [ "(" value, … ")" ] | "(" value ")" | "[" value, … "]"
 *     name    = letters, digits, "_" and "." ; optionally a source in front: gguf:attention.head_count
 *     formula = name "=" value { ";" name "=" value }
 *
 * There are no loops and no definitions; text, depth and number of nodes are bounded, so hostile specs cost little. The
 * meaning of names and calls is left to the walkers: config_eval.c makes values of expressions, formula.c makes ops of
 * formulas. */
#pragma once
#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum expr_kind {
    EXPR_NUMBER,
    EXPR_BOOL,      /* number 0 or 1 */
    EXPR_TEXT,      /* text */
    EXPR_NAME,      /* text; source in front: "gguf:rope.freq_base" */
    EXPR_CALL,      /* text ( arg … ) */
    EXPR_LIST,      /* [ arg … ] */
    EXPR_INDEX,     /* arg0 [ arg1 ] */
    EXPR_TRANSLATE, /* arg0 { words } */
    EXPR_NEGATE,    /* - arg0 */
    EXPR_NOT,
    EXPR_BINARY, /* arg0 op arg1 */
    EXPR_CHOOSE, /* arg0 ? arg1 : arg2 */
    EXPR_ELSE    /* arg0 | arg1 */
} expr_kind;

/* Operators of EXPR_BINARY: their character, and for two-character ones: */
enum { BINOP_EQ = 'e', BINOP_NE = 'n', BINOP_LE = 'l', BINOP_GE = 'g', BINOP_AND = '&', BINOP_OR = 'o' };

typedef struct expr expr;
struct expr {
    expr_kind kind;
    char op;
    double number;
    const char *text;
    const expr **arg;
    size_t n_arg;
    const char *const *words; /* EXPR_TRANSLATE: from, to, from, to …, n_words pairs */
    size_t n_words;
};

typedef struct statement {
    const char *name;
    const expr *value;
} statement;

typedef struct formula {
    statement *at;
    size_t n;
} formula;

enum { EXPR_TEXT_MAX = 1 << 18, EXPR_DEPTH_MAX = 48, EXPR_NODES_MAX = 1 << 14, FORMULA_MAX = 64 };

/* Parses the whole of `text` into the arena. `where` ("llama.ini:12: heads") starts messages. */
int expr_parse(const expr **out, arena *a, const char *text, const char *where, err *e);
int formula_parse(formula *out, arena *a, const char *text, const char *where, err *e);
bool formula_has_statements(const char *text); /* "x = …" and not an expression */

/* The sources that may stand in front of a name: "generation", or that of a checkpoint format (ckpt_source). */
bool expr_is_source(const char *s, size_t n);
