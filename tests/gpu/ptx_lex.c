/* ptx_lex.c - words and numbers of a PTX text. Numbers are C's, and 0f3F800000, 0d3FF0000000000000 for the bits of a
 * float and of a double. */
#include "tests/gpu/ptx_lex.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ptx_stop(const ptx_cursor *c, const char *what)
{
    fflush(stdout);
    fprintf(stderr, "soft gpu: PTX line %d: %s: %.*s\n", c->line, what, (int)strcspn(c->p, "\n"), c->p);
    abort();
}

char ptx_peek(ptx_cursor *c)
{
    for (;; c->p++) {
        if (c->p[0] == '/' && c->p[1] == '/') {
            c->p += strcspn(c->p, "\n");
        } else if (c->p[0] == '/' && c->p[1] == '*') {
            for (c->p += 2; *c->p && !(c->p[0] == '*' && c->p[1] == '/'); c->p++) c->line += *c->p == '\n';
            if (!*c->p) ptx_stop(c, "a comment without end");
            c->p++;
            continue;
        }
        if (*c->p == '\n') c->line++;
        else if (*c->p != ' ' && *c->p != '\t' && *c->p != '\r') return *c->p;
        if (!*c->p) return 0;
    }
}

bool ptx_take(ptx_cursor *c, char ch)
{
    if (ptx_peek(c) != ch) return false;
    c->p++;
    return true;
}

void ptx_need(ptx_cursor *c, char ch)
{
    char what[] = "'?' is missing";
    what[1] = ch;
    if (!ptx_take(c, ch)) ptx_stop(c, what);
}

static bool in_word(char ch, bool dotted)
{
    return isalnum((unsigned char)ch) || ch == '_' || ch == '$' || (dotted && ch == '.');
}

const char *ptx_word(ptx_cursor *c, bool dotted)
{
    static char words[8][512];
    static int turn;
    char *w = words[turn++ & 7];
    size_t n = 0;
    ptx_peek(c);
    if (*c->p == '%' || *c->p == '.') w[n++] = *c->p++;
    for (; in_word(*c->p, dotted) && n + 1 < sizeof words[0]; c->p++) w[n++] = *c->p;
    w[n] = 0;
    if (!n) ptx_stop(c, "a word is missing");
    return w;
}

char *ptx_keep(const char *word)
{
    char *copy = strdup(word);
    if (!copy) abort();
    return copy;
}

bool ptx_take_word(ptx_cursor *c, const char *word)
{
    const size_t n = strlen(word);
    ptx_peek(c);
    if (strncmp(c->p, word, n) || in_word(c->p[n], false)) return false;
    c->p += n;
    return true;
}

void ptx_number(ptx_cursor *c, ptx_operand *o)
{
    const bool minus = ptx_take(c, '-');
    char *end;
    ptx_peek(c);
    o->kind = OPERAND_INTEGER;
    if (c->p[0] == '0' && strchr("fFdD", c->p[1]) && isxdigit((unsigned char)c->p[2])) {
        o->kind = OPERAND_FLOAT;
        o->bytes = c->p[1] == 'f' || c->p[1] == 'F' ? 4 : 8;
        o->value = (int64_t)strtoull(c->p + 2, &end, 16);
        if (minus) o->value ^= o->bytes == 4 ? INT64_C(1) << 31 : INT64_MIN;
    } else {
        const bool hex = c->p[0] == '0' && (c->p[1] == 'x' || c->p[1] == 'X');
        o->value = (int64_t)strtoull(c->p, &end, hex ? 16 : c->p[0] == '0' ? 8 : 10);
        if (!hex && c->p[0] == '0' && c->p[1] == 'b') o->value = (int64_t)strtoull(c->p + 2, &end, 2);
        if (!hex && (*end == '.' || *end == 'e')) {
            const double v = strtod(c->p, &end);
            o->kind = OPERAND_FLOAT;
            o->bytes = 8;
            memcpy(&o->value, &v, 8);
            if (minus) o->value ^= INT64_MIN;
        } else if (minus) {
            o->value = (int64_t)(0 - (uint64_t)o->value);
        }
    }
    if (end == c->p) ptx_stop(c, "a number is missing");
    c->p = end;
    if (o->kind == OPERAND_INTEGER && *c->p == 'U') c->p++;
}

void ptx_skip_braces(ptx_cursor *c)
{
    int depth = 0;
    do {
        const char ch = ptx_peek(c);
        if (!ch) ptx_stop(c, "a block without end");
        depth += (ch == '{') - (ch == '}');
        c->p++;
    } while (depth);
}

void *ptx_grow(void *list, int *n, size_t size)
{
    char **at = list;
    if (!(*n & (*n - 1))) { /* doubled at powers of two */
        *at = realloc(*at, size * (size_t)(*n ? *n * 2 : 1));
        if (!*at) abort();
    }
    memset(*at + size * (size_t)*n, 0, size);
    return *at + size * (size_t)(*n)++;
}
