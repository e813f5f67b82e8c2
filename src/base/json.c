/* json.c - see json.h. The only file that includes cJSON.
 *
 * cJSON parses; a single pass of our own before it checks the grammar that cJSON is lax about (its traps were
 * measured, not guessed: leading zeros, "1.", 1e400, raw newlines, bad UTF-8, "\u0000", text after the value).
 * Duplicate keys are found with a hash map per object, so an object of 100k keys costs linear time.
 *
 * cJSON keeps numbers as doubles. Integers beyond 2^53, and fractions that are whole (1.0), keep their text beside, in
 * the field that cJSON uses for strings, and are printed as that. */
#include "base/json.h"

#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 200, VALUES_MAX = 1 << 23 }; /* a value takes cJSON 64 bytes: half a GiB */
#define EXACT_MAX 0x1p53                        /* up to here doubles hold every integer */

/* A number whose text is kept: an integer that a double may not hold, or a fraction that would be printed as an integer
 * (1.0); and which of all numbers of the text it is. */
typedef struct long_number {
    size_t ordinal, at;
} long_number;

typedef struct scan {
    const uint8_t *p;
    size_t n, at;
    size_t numbers; /* seen so far */
    long_number *longs;
    size_t n_longs, cap_longs;
    const char *what;
    err *e;
} scan;

static int refuse_text(scan *s, const char *why)
{
    return err_set(s->e, ERR_FORMAT, "%s: not valid JSON at byte %zu: %s", s->what, s->at, why);
}

static int peek_byte(const scan *s) { return s->at < s->n ? s->p[s->at] : -1; }

static void skip_blanks(scan *s)
{
    while (s->at < s->n && (s->p[s->at] == ' ' || s->p[s->at] == '\t' || s->p[s->at] == '\n' || s->p[s->at] == '\r'))
        s->at++;
}

static int read_hex4(scan *s, unsigned *out)
{
    unsigned v = 0;
    for (int i = 0; i < 4; i++, s->at++) {
        int c = peek_byte(s), d = c >= '0' && c <= '9'   ? c - '0'
                                  : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                         : -1;
        if (d < 0) return refuse_text(s, "\\u needs four hexadecimal digits");
        v = v << 4 | (unsigned)d;
    }
    *out = v;
    return OK;
}

static int scan_escape(scan *s)
{
    int c = peek_byte(s);
    s->at++;
    if (c >= 0 && c != 0 && strchr("\"\\/bfnrt", c)) return OK;
    if (c != 'u') return refuse_text(s, "unknown escape");
    unsigned u;
    int rc = read_hex4(s, &u);
    if (rc) return rc;
    if (u == 0) return refuse_text(s, "\\u0000 is not accepted");
    if (u >= 0xdc00 && u <= 0xdfff) return refuse_text(s, "lone low surrogate");
    if (u < 0xd800 || u > 0xdbff) return OK;
    if (peek_byte(s) != '\\' || s->at + 1 >= s->n || s->p[s->at + 1] != 'u')
        return refuse_text(s, "lone high surrogate");
    s->at += 2;
    if ((rc = read_hex4(s, &u))) return rc;
    return u >= 0xdc00 && u <= 0xdfff ? OK : refuse_text(s, "lone high surrogate");
}

static int scan_string(scan *s)
{
    for (s->at++;;) {
        int c = peek_byte(s);
        if (c < 0) return refuse_text(s, "string without end");
        if (c < 0x20) return refuse_text(s, "raw control character in a string");
        if (c == '"') {
            s->at++;
            return OK;
        }
        if (c == '\\') {
            s->at++;
            int rc = scan_escape(s);
            if (rc) return rc;
        } else if (c < 0x80) {
            s->at++;
        } else {
            size_t len = utf8_valid_length(s->p + s->at, s->n - s->at);
            if (!len) return refuse_text(s, "invalid UTF-8");
            s->at += len;
        }
    }
}

static int keep_long(scan *s, size_t start)
{
    void *p = s->longs;
    if (!mem_grow(&p, &s->cap_longs, s->n_longs + 1, sizeof *s->longs))
        return err_set(s->e, ERR_MEMORY, "%s: out of memory reading JSON", s->what);
    s->longs = p;
    s->longs[s->n_longs++] = (long_number){s->numbers, start};
    return OK;
}

static int scan_number(scan *s)
{
    size_t start = s->at;
    bool whole = true;
    s->numbers++;
    if (peek_byte(s) == '-') s->at++;
    if (peek_byte(s) == '0') s->at++;
    else if (peek_byte(s) >= '1' && peek_byte(s) <= '9')
        while (peek_byte(s) >= '0' && peek_byte(s) <= '9') s->at++;
    else return refuse_text(s, "not a value");
    if (peek_byte(s) >= '0' && peek_byte(s) <= '9') return refuse_text(s, "number with a leading zero");
    if (peek_byte(s) == '.') {
        whole = false;
        s->at++;
        if (!(peek_byte(s) >= '0' && peek_byte(s) <= '9'))
            return refuse_text(s, "digits must follow the decimal point");
        while (peek_byte(s) >= '0' && peek_byte(s) <= '9') s->at++;
    }
    if (peek_byte(s) == 'e' || peek_byte(s) == 'E') {
        whole = false;
        s->at++;
        if (peek_byte(s) == '+' || peek_byte(s) == '-') s->at++;
        if (!(peek_byte(s) >= '0' && peek_byte(s) <= '9')) return refuse_text(s, "digits must follow the exponent");
        while (peek_byte(s) >= '0' && peek_byte(s) <= '9') s->at++;
    }
    char text[64];
    size_t n = s->at - start;
    if (n >= sizeof text) return refuse_text(s, "number of more than 63 characters");
    memcpy(text, s->p + start, n);
    text[n] = 0;
    double v = strtod(text, NULL);
    if (!isfinite(v)) return refuse_text(s, "number out of range");
    return (whole ? fabs(v) >= EXACT_MAX : v == floor(v)) ? keep_long(s, start) : OK;
}

/* Grammar check without recursion: `open` holds the bracket of every open level. */
static int scan_text(scan *s)
{
    char open[DEPTH_MAX];
    int depth = 0, rc;
    bool want_key = false;
    for (size_t values = 0;; values++) {
        if (values >= VALUES_MAX) return refuse_text(s, "more than 2^23 values");
        skip_blanks(s);
        int c = peek_byte(s);
        if (want_key) {
            if (c != '"') return refuse_text(s, "expected a key");
            if ((rc = scan_string(s))) return rc;
            skip_blanks(s);
            if (peek_byte(s) != ':') return refuse_text(s, "expected ':'");
            s->at++;
            skip_blanks(s);
            c = peek_byte(s);
            want_key = false;
        }
        if (c == '{' || c == '[') {
            if (depth == DEPTH_MAX) return refuse_text(s, "nested too deeply");
            open[depth++] = (char)c;
            s->at++;
            skip_blanks(s);
            if (peek_byte(s) == (c == '{' ? '}' : ']')) {
                s->at++;
                depth--;
            } else {
                want_key = c == '{';
                continue;
            }
        } else if (c == '"') {
            if ((rc = scan_string(s))) return rc;
        } else if (s->n - s->at >= 4 && (!memcmp(s->p + s->at, "true", 4) || !memcmp(s->p + s->at, "null", 4))) {
            s->at += 4;
        } else if (s->n - s->at >= 5 && !memcmp(s->p + s->at, "false", 5)) {
            s->at += 5;
        } else if ((rc = scan_number(s))) {
            return rc;
        }
        for (;;) { /* after a value: close levels or go on to the next member */
            skip_blanks(s);
            c = peek_byte(s);
            if (depth == 0) return c < 0 ? OK : refuse_text(s, "text after the value");
            if (c == ',') {
                s->at++;
                want_key = open[depth - 1] == '{';
                break;
            }
            if (c != (open[depth - 1] == '{' ? '}' : ']')) return refuse_text(s, "expected ',' or a closing bracket");
            s->at++;
            depth--;
        }
    }
}

static int refuse_duplicates(const json *j, const char *what, err *e)
{
    int rc = OK;
    if (cJSON_IsObject(j)) {
        map seen = {0};
        for (const json *m = j->child; m && !rc; m = m->next) {
            span key = span_str(m->string);
            if (map_get(&seen, key) != MAP_NONE)
                rc = err_set(e, ERR_FORMAT, "%s: key \"%.80s\" appears twice", what, m->string);
            else if (!map_put(&seen, key, 0)) rc = err_memory(e, what);
        }
        map_free(&seen);
    }
    if (cJSON_IsObject(j) || cJSON_IsArray(j))
        for (const json *m = j->child; m && !rc; m = m->next)
            if (m->child) rc = refuse_duplicates(m, what, e);
    return rc;
}

static void set_hooks(void)
{
    cJSON_Hooks hooks = {mem_alloc, mem_free};
    cJSON_InitHooks(&hooks);
}

/* cJSON's memory comes through mem.h too, so that its failures are tested and its use in the token loop is noticed. */
static void use_mem(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_hooks);
}

/* Walks numbers in the order of the text and gives the long ones their digits. */
static bool give_digits(json *j, const scan *s, size_t *number, size_t *next)
{
    for (json *m = j; m && *next < s->n_longs; m = m->next) {
        if (m->child && !give_digits(m->child, s, number, next)) return false;
        if (!cJSON_IsNumber(m) || ++*number != s->longs[*next].ordinal) continue;
        const char *digits = (const char *)s->p + s->longs[(*next)++].at;
        size_t n = 1;
        while (digits + n < (const char *)s->p + s->n && strchr("0123456789.eE+-", digits[n])) n++;
        m->valuestring = mem_alloc(n + 1);
        if (!m->valuestring) return false;
        memcpy(m->valuestring, digits, n);
        m->valuestring[n] = 0;
    }
    return true;
}

static int parse_scanned(json **out, const scan *s)
{
    json *j = cJSON_ParseWithLength((const char *)s->p, s->n);
    size_t number = 0, next = 0;
    int rc = j && give_digits(j, s, &number, &next) ? OK : ERR_MEMORY;
    rc = rc ? err_set(s->e, rc, "%s: out of memory reading JSON", s->what) : refuse_duplicates(j, s->what, s->e);
    if (rc) cJSON_Delete(j);
    else *out = j;
    return rc;
}

int json_parse(json **out, span text, const char *what, err *e)
{
    *out = NULL;
    use_mem();
    int rc = utf8_unmark(&text, what, e);
    scan s = {.p = text.p, .n = text.n, .what = what, .e = e};
    if (!rc) rc = scan_text(&s);
    if (!rc) rc = parse_scanned(out, &s);
    mem_free(s.longs);
    return rc;
}

/* The end of the string literal at `at`, or of the text. */
static size_t after_literal(span text, size_t at)
{
    for (at++; at < text.n && text.p[at] != '"'; at++) at += text.p[at] == '\\';
    return at < text.n ? at + 1 : text.n;
}

/* Copies `text` with Python's words for numbers as objects. false: it has none. */
static bool write_words(span text, buf *out)
{
    static const char *const words[] = {"-Infinity", "Infinity", "NaN"};
    size_t from = 0, at = 0;
    while (at < text.n) {
        const char *word = NULL;
        for (size_t i = 0; i < sizeof words / sizeof *words && !word && strchr("-IN", text.p[at]); i++)
            if (span_starts(span_of(text.p + at, text.n - at), words[i])) word = words[i];
        if (!word) {
            at = text.p[at] == '"' ? after_literal(text, at) : at + 1;
            continue;
        }
        buf_add(out, text.p + from, at - from);
        buf_printf(out, "{\"__float__\": \"%s\"}", word);
        from = at += strlen(word);
    }
    if (!from) return false;
    buf_add(out, text.p + from, text.n - from);
    return true;
}

int json_parse_python(json **out, span text, const char *what, err *e)
{
    buf strict = {0};
    const bool words = write_words(text, &strict);
    *out = NULL;
    int rc = strict.bad ? err_memory(e, what) : json_parse(out, words ? buf_span(&strict) : text, what, e);
    buf_free(&strict);
    return rc;
}

int json_read(json **out, const char *path, size_t max_bytes, err *e)
{
    buf b = {0};
    *out = NULL;
    int rc = file_read_regular(&b, path, max_bytes, e);
    if (!rc) rc = json_parse_python(out, buf_span(&b), path, e);
    buf_free(&b);
    return rc;
}

void json_free(json *root) { cJSON_Delete(root); }

json_kind json_type(const json *j)
{
    if (cJSON_IsBool(j)) return JSON_BOOL;
    if (cJSON_IsNumber(j)) return JSON_NUMBER;
    if (cJSON_IsString(j)) return JSON_STRING;
    if (cJSON_IsArray(j)) return JSON_ARRAY;
    if (cJSON_IsObject(j)) return JSON_OBJECT;
    return JSON_NULL;
}

const json *json_get(const json *obj, const char *key)
{
    return cJSON_IsObject(obj) ? cJSON_GetObjectItemCaseSensitive(obj, key) : NULL;
}

const json *json_path(const json *obj, const char *dotted)
{
    const json *whole = json_get(obj, dotted); /* keys may contain dots themselves */
    if (whole) return whole;
    const char *dot = strchr(dotted, '.');
    char head[128];
    if (!dot || (size_t)(dot - dotted) >= sizeof head) return NULL;
    memcpy(head, dotted, (size_t)(dot - dotted));
    head[dot - dotted] = 0;
    return json_path(json_get(obj, head), dot + 1);
}

size_t json_count(const json *j)
{
    size_t n = 0;
    for (const json *m = json_first(j); m; m = m->next) n++;
    return n;
}

const json *json_first(const json *j) { return cJSON_IsArray(j) || cJSON_IsObject(j) ? j->child : NULL; }
const json *json_next(const json *j) { return j ? j->next : NULL; }
const char *json_key(const json *member) { return member && member->string ? member->string : ""; }

const json *json_at(const json *arr, size_t i)
{
    const json *m = json_first(arr);
    while (m && i--) m = m->next;
    return m;
}

const char *json_str(const json *j, const char *otherwise) { return cJSON_IsString(j) ? j->valuestring : otherwise; }
double json_num(const json *j, double otherwise) { return cJSON_IsNumber(j) ? j->valuedouble : otherwise; }
bool json_bool(const json *j, bool otherwise) { return cJSON_IsBool(j) ? cJSON_IsTrue(j) : otherwise; }

bool json_is_int(const json *j)
{
    return cJSON_IsNumber(j) && fabs(j->valuedouble) <= EXACT_MAX && j->valuedouble == floor(j->valuedouble);
}

bool json_int64(const json *j, int64_t *out)
{
    bool has_digits = cJSON_IsNumber(j) && j->valuestring && !strpbrk(j->valuestring, ".eE");
    if (!has_digits && !json_is_int(j)) return false;
    errno = 0;
    *out = has_digits ? strtoll(j->valuestring, NULL, 10) : (int64_t)j->valuedouble;
    return errno == 0;
}

int64_t json_int(const json *j, int64_t otherwise) { return json_is_int(j) ? (int64_t)j->valuedouble : otherwise; }

json *json_new_object(void)
{
    use_mem();
    return cJSON_CreateObject();
}

json *json_copy(const json *j) { return cJSON_Duplicate(j, true); }

static json *attach_child(json *parent, const char *key, json *child)
{
    if (!child) return NULL;
    bool ok = parent && (key ? cJSON_AddItemToObject(parent, key, child) : cJSON_AddItemToArray(parent, child));
    if (ok) return child;
    cJSON_Delete(child);
    return NULL;
}

json *json_add_object(json *obj, const char *key) { return attach_child(obj, key, cJSON_CreateObject()); }
json *json_add_array(json *obj, const char *key) { return attach_child(obj, key, cJSON_CreateArray()); }
json *json_add_str(json *obj, const char *key, const char *s) { return attach_child(obj, key, cJSON_CreateString(s)); }
json *json_add_num(json *obj, const char *key, double v) { return attach_child(obj, key, cJSON_CreateNumber(v)); }
json *json_add_bool(json *obj, const char *key, bool v) { return attach_child(obj, key, cJSON_CreateBool(v)); }
json *json_add_null(json *obj, const char *key) { return attach_child(obj, key, cJSON_CreateNull()); }
json *json_add_raw(json *obj, const char *key, const char *text)
{
    return attach_child(obj, key, cJSON_CreateRaw(text));
}
json *json_add_copy(json *obj, const char *key, const json *other)
{
    return attach_child(obj, key, cJSON_Duplicate(other, true));
}

json *json_add_int(json *obj, const char *key, int64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)v);
    return json_add_raw(obj, key, text);
}

static bool keeps_texts(const json *j)
{
    for (; j; j = j->next)
        if ((cJSON_IsNumber(j) && j->valuestring) || keeps_texts(j->child)) return true;
    return false;
}

/* Numbers whose text is kept are printed as that. */
static void print_as_kept(json *j)
{
    for (; j; j = j->next) {
        if (cJSON_IsNumber(j) && j->valuestring) j->type = cJSON_Raw;
        print_as_kept(j->child);
    }
}

bool json_print(buf *out, const json *j, bool indent)
{
    const bool kept = j && ((cJSON_IsNumber(j) && j->valuestring) || keeps_texts(j->child));
    json *copy = kept ? json_copy(j) : NULL;
    const json *from = kept ? copy : j;
    print_as_kept(copy);
    char *text = indent ? cJSON_Print(from) : cJSON_PrintUnformatted(from);
    json_free(copy);
    if (!text) return false;
    bool ok = buf_str(out, text);
    cJSON_free(text);
    return ok;
}

bool json_quote(buf *out, span s)
{
    buf_byte(out, '"');
    for (size_t i = 0; i < s.n;) {
        uint8_t c = s.p[i];
        if (c == '"' || c == '\\') buf_printf(out, "\\%c", c);
        else if (c == '\n') buf_str(out, "\\n");
        else if (c < 0x20 || c == 0x7f) buf_printf(out, "\\u%04x", c);
        else if (c < 0x80) buf_byte(out, c);
        else {
            size_t len = utf8_valid_length(s.p + i, s.n - i);
            if (len) buf_add(out, s.p + i, len);
            else buf_str(out, "\xef\xbf\xbd");
            i += len ? len : 1;
            continue;
        }
        i++;
    }
    return buf_byte(out, '"');
}

bool json_quote_or_null(buf *out, const char *text)
{
    return text ? json_quote(out, span_str(text)) : buf_str(out, "null");
}
