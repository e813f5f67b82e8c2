/* json.h - JSON, strictly: RFC 8259 and nothing more, parsed by cJSON.
 *
 * Reading refuses what cJSON lets through: duplicate keys, raw control characters, invalid UTF-8, numbers such as
 * 01, 1. or 1e400, NaN, text after the value, nesting beyond 200, more than 2^23 values, and (unless JSON_NUL_OK)
 * "\u0000", which cJSON would cut. A `json` node belongs to its root; json_free takes the root. All getters accept
 * NULL nodes and give the default. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cJSON json;
typedef enum { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } json_kind;

/* `what` names the text in messages ("config.json"). Errors: ERR_FORMAT with byte offset. */
int json_parse(json **out, span text, const char *what, err *e);
/* The same for what Python's json module writes: Infinity, -Infinity and NaN become {"__float__": "Infinity"} and so
 * on, as transformers 5 writes them. */
int json_parse_python(json **out, span text, const char *what, err *e);
int json_read(json **out, const char *path, size_t max_bytes, err *e); /* file_read_regular + json_parse_python */
void json_free(json *root);                                            /* NULL ok */

json_kind json_type(const json *j); /* NULL is JSON_NULL */
/* Exact case; NULL when absent. Linear: build a map for many look-ups. */
const json *json_get(const json *obj, const char *key);
const json *json_path(const json *obj, const char *dotted); /* "rope_scaling.factor"; NULL when absent */
size_t json_count(const json *j);                           /* members of an array or object (linear) */
const json *json_first(const json *j);                      /* first member, then json_next: the way to walk */
const json *json_next(const json *j);
const char *json_key(const json *member);       /* its key in the object, "" in arrays */
const json *json_at(const json *arr, size_t i); /* linear */

const char *json_str(const json *j, const char *otherwise);
double json_num(const json *j, double otherwise);
int64_t json_int(const json *j, int64_t otherwise); /* exact integers up to 2^53; anything else gives `otherwise` */
bool json_is_int(const json *j);
/* Whole numbers of 64 bits, exact also beyond 2^53 where they are written as digits only; false for anything else. */
bool json_int64(const json *j, int64_t *out);
bool json_bool(const json *j, bool otherwise);

/* Building. Every call returns the new node (owned by its parent) or NULL when memory is short; a NULL parent gives
 * NULL. */
json *json_new_object(void);
json *json_copy(const json *j);                    /* a root of its own */
json *json_add_object(json *obj, const char *key); /* key NULL: append to an array */
json *json_add_array(json *obj, const char *key);
json *json_add_str(json *obj, const char *key, const char *s);
json *json_add_num(json *obj, const char *key, double v);
json *json_add_int(json *obj, const char *key, int64_t v); /* printed exactly, all 64 bits */
json *json_add_bool(json *obj, const char *key, bool v);
json *json_add_null(json *obj, const char *key);
json *json_add_raw(json *obj, const char *key, const char *text); /* JSON text, trusted */
json *json_add_copy(json *obj, const char *key, const json *other);

/* Appends the text of a value; indent false: one line. Returns false when memory is short. */
bool json_print(buf *out, const json *j, bool indent);
/* Appends a JSON string literal with its quotes. Bytes that are not UTF-8 become U+FFFD. */
bool json_quote(buf *out, span s);
/* Appends a text as a string literal, or the word null for NULL. */
bool json_quote_or_null(buf *out, const char *text);
