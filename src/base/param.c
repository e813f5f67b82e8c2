/* param.c - see param.h. One reader of text values for flags, JSON fields and spec keys, so that all of them take
 * the same spellings and complain in the same words. */
#include "base/param.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

_Static_assert(sizeof(param_type) == sizeof(unsigned), "PARAM_CHOICE fills an enum as an unsigned");

enum { EDIT_MAX = 64 }; /* longer words are far from each other */

static bool same_key(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if ((*a == '-' ? '_' : *a) != (*b == '-' ? '_' : *b)) return false;
    return *a == *b;
}

const param *param_find(const param *rows, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (same_key(rows[i].key, key) || (rows[i].alias && same_key(rows[i].alias, key))) return &rows[i];
    return NULL;
}

static int out_of_range(const param *row, const char *text, const char *where, err *e)
{
    if (row->max >= 1e15) return err_set(e, ERR_USAGE, "%s: %s is out of range: at least %g", where, text, row->min);
    return err_set(e, ERR_USAGE, "%s: %s is out of range: %.15g to %.15g", where, text, row->min, row->max);
}

static bool in_range(const param *row, double v)
{
    return (row->min == 0 && row->max == 0) || (v >= row->min && v <= row->max);
}

static int set_int(const param *row, void *field, const char *text, const char *where, err *e)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end || errno) return err_set(e, ERR_USAGE, "%s: '%s' is not a whole number", where, text);
    if (!in_range(row, (double)v)) return out_of_range(row, text, where, e);
    *(int64_t *)field = v;
    return OK;
}

bool param_bytes(span text, int64_t *out)
{
    static const char units[] = "KMG";
    size_t i = 0;
    int64_t v = 0;
    for (; i < text.n && text.p[i] >= '0' && text.p[i] <= '9'; i++) {
        if (v > (INT64_MAX - 9) / 10) return false;
        v = 10 * v + text.p[i] - '0';
    }
    const char *unit = i > 0 && i + 1 == text.n ? memchr(units, text.p[i], 3) : NULL;
    const int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    *out = v << shift;
    return i > 0 && (i == text.n || unit) && v <= INT64_MAX >> shift;
}

static int set_bytes(const param *row, void *field, const char *text, const char *where, err *e)
{
    int64_t v;
    if (!param_bytes(span_str(text), &v))
        return err_set(e, ERR_USAGE, "%s: '%s' is not a number of bytes, as 4096, 512M or 8G", where, text);
    if (!in_range(row, (double)v)) return out_of_range(row, text, where, e);
    *(int64_t *)field = v;
    return OK;
}

static int set_float(const param *row, void *field, const char *text, const char *where, err *e)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !isfinite(v)) return err_set(e, ERR_USAGE, "%s: '%s' is not a number", where, text);
    if (!in_range(row, v)) return out_of_range(row, text, where, e);
    *(double *)field = v;
    return OK;
}

static int set_bool(void *field, const char *text, const char *where, err *e)
{
    static const char *const word[] = {"false", "off", "no", "0", "true", "on", "yes", "1"};
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        if (strcasecmp(text, word[i]) == 0) {
            *(bool *)field = i >= 4;
            return OK;
        }
    return err_set(e, ERR_USAGE, "%s: '%s' is not true or false", where, text);
}

bool param_words_have(const char *words, span word)
{
    for (const char *w = words; w; w = strchr(w, '|') ? strchr(w, '|') + 1 : NULL)
        if (span_eq(word, span_of(w, strcspn(w, "|")))) return true;
    return false;
}

bool param_has_words(const param *row) { return row->type == PARAM_WORD || row->type == PARAM_CHOICE; }

uint32_t param_word_count(const param *row)
{
    uint32_t n = 1;
    for (const char *c = row->words; *c; c++) n += *c == '|';
    return n;
}

span param_word(const param *row, uint32_t i)
{
    const char *w = row->words;
    while (i-- && *(w += strcspn(w, "|"))) w++;
    return span_of(w, strcspn(w, "|"));
}

/* As PARAM_WORD the field keeps the caller's memory, like PARAM_TEXT. */
static int set_word(const param *row, void *field, const char *text, const char *where, err *e)
{
    if (!param_words_have(row->words, span_str(text)))
        return err_set(e, ERR_USAGE, "%s: '%s' is not one of %s", where, text, row->words ? row->words : "");
    if (row->type == PARAM_WORD) *(const char **)field = text;
    for (unsigned i = 0; row->type == PARAM_CHOICE && i < param_word_count(row); i++)
        if (span_is(param_word(row, i), text)) *(unsigned *)field = i;
    return OK;
}

int param_set(const param *row, void *into, const char *text, const char *where, err *e)
{
    void *field = (char *)into + row->offset;
    switch (row->type) {
    case PARAM_INT: return set_int(row, field, text, where, e);
    case PARAM_FLOAT: return set_float(row, field, text, where, e);
    case PARAM_BYTES: return set_bytes(row, field, text, where, e);
    case PARAM_BOOL: return set_bool(field, text, where, e);
    case PARAM_TEXT: *(const char **)field = text; return OK;
    case PARAM_WORD:
    case PARAM_CHOICE: return set_word(row, field, text, where, e);
    }
    return err_set(e, ERR_USAGE, "%s: unknown kind of option", where);
}

int param_set_number(const param *row, void *into, double value, const char *where, err *e)
{
    void *field = (char *)into + row->offset;
    char text[32];
    snprintf(text, sizeof text, "%.15g", value);
    switch (row->type) {
    case PARAM_INT:
    case PARAM_BYTES:
        if (!(value >= -9007199254740992.0 && value <= 9007199254740992.0) || value != floor(value))
            return err_set(e, ERR_USAGE, "%s: '%s' is not a whole number", where, text);
        if (!in_range(row, value)) return out_of_range(row, text, where, e);
        *(int64_t *)field = (int64_t)value;
        return OK;
    case PARAM_FLOAT:
        if (!isfinite(value)) return err_set(e, ERR_USAGE, "%s: '%s' is not a number", where, text);
        if (!in_range(row, value)) return out_of_range(row, text, where, e);
        *(double *)field = value;
        return OK;
    case PARAM_BOOL:
        if (value != 0 && value != 1) return err_set(e, ERR_USAGE, "%s: '%s' is not true or false", where, text);
        *(bool *)field = value != 0;
        return OK;
    default: return err_set(e, ERR_USAGE, "%s: %s is a number, expected text", where, text);
    }
}

void param_defaults(const param *rows, size_t n, void *into)
{
    for (size_t i = 0; i < n; i++) {
        void *field = (char *)into + rows[i].offset;
        switch (rows[i].type) {
        case PARAM_INT:
        case PARAM_BYTES: *(int64_t *)field = 0; break;
        case PARAM_FLOAT: *(double *)field = 0; break;
        case PARAM_BOOL: *(bool *)field = false; break;
        case PARAM_TEXT:
        case PARAM_WORD: *(const char **)field = NULL; break;
        case PARAM_CHOICE: *(unsigned *)field = 0; break;
        }
        if (rows[i].otherwise) param_set(&rows[i], into, rows[i].otherwise, rows[i].key, NULL);
    }
}

static void add_word(json *object, const param *row, unsigned i)
{
    char text[64];
    const span word = param_word(row, i);
    snprintf(text, sizeof text, "%.*s", (int)word.n, (const char *)word.p);
    json_add_str(object, row->key, text);
}

void param_json(const param *rows, size_t n, const void *from, json *object)
{
    for (size_t i = 0; i < n; i++) {
        const void *field = (const char *)from + rows[i].offset;
        const char *text = NULL;
        switch (rows[i].type) {
        case PARAM_INT:
        case PARAM_BYTES: json_add_int(object, rows[i].key, *(const int64_t *)field); break;
        case PARAM_FLOAT: json_add_num(object, rows[i].key, *(const double *)field); break;
        case PARAM_BOOL: json_add_bool(object, rows[i].key, *(const bool *)field); break;
        case PARAM_TEXT:
        case PARAM_WORD:
            text = *(const char *const *)field;
            if (text) json_add_str(object, rows[i].key, text);
            else json_add_null(object, rows[i].key);
            break;
        case PARAM_CHOICE: add_word(object, &rows[i], *(const unsigned *)field); break;
        }
    }
}

static int least(int a, int b, int c)
{
    int m = a < b ? a : b;
    return m < c ? m : c;
}

int edit_distance(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b);
    if (na > EDIT_MAX || nb > EDIT_MAX) return strcmp(a, b) == 0 ? 0 : 99;
    int row[3][EDIT_MAX + 1]; /* rows i-2, i-1, i of the table of prefixes, in rotation */
    for (size_t j = 0; j <= nb; j++) row[0][j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        int *now = row[i % 3], *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];
        now[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            now[j] = least(up[j] + 1, now[j - 1] + 1, up[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && up2[j - 2] + 1 < now[j])
                now[j] = up2[j - 2] + 1;
        }
    }
    int d = row[na % 3][nb];
    return d > 99 ? 99 : d;
}

const char *param_nearest(const param *rows, size_t n, const char *key)
{
    const char *best = NULL;
    size_t len = strlen(key);
    int bound = len < 6 ? 1 : (int)(len / 3);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 2; k++) {
            const char *name = k ? rows[i].alias : rows[i].key;
            int d = name && name[1] ? edit_distance(key, name) : 99;
            if (d <= bound && d < (int)len) {
                best = name;
                bound = d - 1;
            }
        }
    return best;
}

/* ---- help */

const char *param_spell(const char *key, char out[80])
{
    snprintf(out, 80, "%s", key);
    for (char *c = out; *c; c++)
        if (*c == '_') *c = '-';
    return out;
}

static const char *value_name(const param *p)
{
    if (p->words) return p->words;
    return p->type == PARAM_INT ? "N" : p->type == PARAM_FLOAT ? "F" : p->type == PARAM_TEXT ? "TEXT" : "";
}

static void add_flag(buf *out, const char *lead, const char *name)
{
    buf_printf(out, "%s%s", lead, name[1] ? "--" : "-");
    for (const char *c = name; *c; c++) buf_byte(out, *c == '_' ? '-' : *c);
}

/* Letters of UTF-8. */
static size_t count_columns(const char *text, size_t n)
{
    size_t c = 0;
    for (size_t i = 0; i < n; i++) c += ((unsigned char)text[i] & 0xC0) != 0x80;
    return c;
}

/* Adds words to a line of `indent` columns; so do those begin that follow. */
static void add_words(buf *out, size_t indent, int width, const char *text, size_t n)
{
    size_t at = indent;
    for (const char *word = text, *end = text + n; word < end;) {
        const char *blank = memchr(word, ' ', (size_t)(end - word));
        const size_t bytes = (size_t)((blank ? blank : end) - word), wide = count_columns(word, bytes);
        if (at > indent && at + 1 + wide > (size_t)width) {
            buf_printf(out, "\n%*s", (int)indent, "");
            at = indent;
        } else if (at > indent) {
            buf_byte(out, ' ');
            at++;
        }
        buf_add(out, word, bytes);
        at += wide;
        for (word += bytes; word < end && *word == ' ';) word++;
    }
}

/* Where the second column of a line begins, else its first word. */
static size_t hang_of(const char *line, size_t n, int width)
{
    size_t begin = 0;
    while (begin < n && line[begin] == ' ') begin++;
    for (size_t i = begin + 1; i + 2 < n && 2 * i < (size_t)width; i++)
        if (line[i] != ' ' && line[i - 1] == ' ' && line[i - 2] == ' ' && i - 2 > begin) return i;
    return begin;
}

void param_wrap(const char *text, int width, buf *out)
{
    for (size_t n; *text; text += n) {
        n = strcspn(text, "\n");
        const size_t hang = count_columns(text, n) > (size_t)width ? hang_of(text, n, width) : n;
        buf_add(out, text, hang);
        add_words(out, hang, width, text + hang, n - hang);
        if (text[n]) buf_byte(out, text[n++]);
    }
}

size_t param_help(const param *rows, size_t n, bool all, int width, buf *out)
{
    const size_t indent = width < 70 ? 8 : 29; /* of the column of descriptions */
    size_t left = 0;
    for (size_t i = 0; i < n; i++) {
        const param *p = &rows[i];
        if (p->rare && !all) {
            left++;
            continue;
        }
        buf doc = {0};
        size_t begin = out->n;
        bool letter = p->alias && !p->alias[1];
        if (letter) add_flag(out, "  ", p->alias);
        add_flag(out, letter ? ", " : "  ", p->key);
        if (p->alias && !letter) add_flag(out, ", ", p->alias);
        if (*value_name(p)) buf_printf(out, " %s", value_name(p));
        buf_str(&doc, p->doc ? p->doc : "");
        if (p->otherwise && *p->otherwise && !strstr(buf_cstr(&doc), "(default"))
            buf_printf(&doc, " (default %s)", p->otherwise);
        const size_t at = out->n - begin;
        buf_printf(out, "%s%*s", at < indent ? "" : "\n", (int)(at < indent ? indent - at : indent), "");
        add_words(out, indent, width, buf_cstr(&doc), doc.n);
        buf_byte(out, '\n');
        out->bad |= doc.bad;
        buf_free(&doc);
    }
    return left;
}
