/* self_contained.c - see self_contained.h. */
#include "io/self_contained.h"

#include "base/base64.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "tensor/panel.h"

#include <stdlib.h>

enum { SHAPE_TEXT_MAX = 200 };

int self_open(self_contained *s, const json *metadata, err *e)
{
    *s = (self_contained){0};
    const char *layout = json_str(json_get(metadata, SELF_LAYOUT), NULL);
    if (!layout) return OK;
    if (strcmp(layout, SELF_VERSION) != 0)
        return err_set(e, ERR_FORMAT, SELF_LAYOUT " is \"%.40s\": written by another version of inferflow; known is %s",
                       layout, SELF_VERSION);
    size_t n = json_count(metadata), i = 0;
    if (!(s->value = mem_array(n, sizeof *s->value))) return err_memory(e, NULL);
    for (const json *m = json_first(metadata); m; m = json_next(m), i++) {
        s->value[i] = m;
        if (!map_put(&s->by_key, span_str(json_key(m)), (uint32_t)i)) return err_memory(e, NULL);
    }
    s->metadata = metadata;
    return OK;
}

void self_close(self_contained *s)
{
    map_free(&s->by_key);
    mem_free((void *)s->value);
    *s = (self_contained){0};
}

static const char *text_of(const self_contained *s, const char *key)
{
    uint32_t i = map_get_str(&s->by_key, key);
    return i == MAP_NONE ? NULL : json_str(s->value[i], NULL);
}

/* "2048,5632" */
static bool read_shape(const char *text, shape *dims)
{
    *dims = (shape){0};
    while (text && *text >= '0' && *text <= '9' && dims->rank < SHAPE_MAX && strlen(text) < SHAPE_TEXT_MAX) {
        char *end;
        dims->dim[dims->rank++] = strtoll(text, &end, 10);
        if (!*end) return true;
        text = *end == ',' ? end + 1 : NULL;
    }
    return false;
}

int self_tensor(const self_contained *s, const char *name, dtype *type, bool *packed, shape *dims, err *e)
{
    const char *said = s->metadata ? text_of(s, name) : NULL;
    char word[40], key[sizeof SELF_SHAPE + 1100];
    *packed = false;
    if (!said || strcmp(said, dtype_info[DTYPE_U8].name) == 0) return OK;
    size_t n = strlen(said), k = strlen(SELF_PANELS);
    *packed = n > k && strcmp(said + n - k, SELF_PANELS) == 0;
    snprintf(word, sizeof word, "%.*s", (int)(n - (*packed ? k : 0) < sizeof word ? n - (*packed ? k : 0) : 0), said);
    *type = dtype_by_name(word);
    if (*type == DTYPE_NONE || (*packed && !panel_format_of(*type)))
        return err_set(e, ERR_FORMAT, "tensor \"%.80s\": type \"%.40s\" is not known to this version of inferflow",
                       name, said);
    snprintf(key, sizeof key, SELF_SHAPE "%s", name);
    if (!read_shape(text_of(s, key), dims))
        return err_set(e, ERR_FORMAT, "tensor \"%.80s\": " SELF_SHAPE "… does not say its rows and columns", name);
    return OK;
}

int self_files(const json *metadata, arena *mem, const held_file **files, size_t *n, err *e)
{
    size_t k = strlen(SELF_FILE), k64 = strlen(SELF_BASE64);
    held_file *list = arena_array(mem, json_count(metadata), sizeof *list);
    *n = 0;
    if (!list) return err_memory(e, NULL);
    for (const json *m = json_first(metadata); m; m = json_next(m)) {
        const char *key = json_key(m), *text = json_str(m, "");
        if (strncmp(key, SELF_FILE, k) == 0) list[(*n)++] = (held_file){key + k, span_str(text)};
        if (strncmp(key, SELF_BASE64, k64) != 0) continue;
        buf bytes = {0};
        bool well = base64_decode(span_str(text), &bytes);
        char *own = well ? arena_strn(mem, (const char *)bytes.p, bytes.n) : NULL;
        list[(*n)++] = (held_file){key + k64, span_of(own, bytes.n)};
        bool short_of_memory = bytes.bad;
        buf_free(&bytes);
        if (short_of_memory || (well && !own)) return err_memory(e, NULL);
        if (!well) return err_set(e, ERR_FORMAT, "%.80s in __metadata__ is not base64", key);
    }
    *files = list;
    return OK;
}

int self_add_file(json *metadata, const char *name, span bytes, err *e)
{
    bool text = utf8_is_valid(bytes) && !(bytes.n && memchr(bytes.p, 0, bytes.n));
    buf key = {0}, value = {0};
    buf_printf(&key, "%s%s", text ? SELF_FILE : SELF_BASE64, name);
    if (text) buf_add(&value, bytes.p, bytes.n);
    else base64_encode(bytes, &value);
    bool added = !key.bad && !value.bad && json_add_str(metadata, buf_cstr(&key), buf_cstr(&value));
    buf_free(&key);
    buf_free(&value);
    return added ? OK : err_memory(e, NULL);
}
