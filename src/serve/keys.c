/* keys.c - see keys.h. */
#include "serve/keys.h"

#include "base/file.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

enum { KEY_FILE_MAX = 1 << 20, KEY_MAX = 4096 };

void keys_free(key_list *l)
{
    for (size_t i = 0; i < l->n; i++) mem_free(l->key[i]);
    mem_free(l->key);
    *l = (key_list){0};
}

static int add_key(key_list *out, span line, const char *path, err *e)
{
    while (line.n && (line.p[0] == ' ' || line.p[0] == '\t')) line = span_of(line.p + 1, line.n - 1);
    while (line.n && strchr(" \t\r", line.p[line.n - 1])) line.n--;
    if (!line.n || line.p[0] == '#') return OK;
    if (line.n > KEY_MAX) return err_set(e, ERR_USAGE, "%s: a key of more than %d bytes", path, KEY_MAX);
    void *p = out->key;
    char *copy = mem_zero(line.n + 2, 1); /* "key\0name\0" */
    if (!copy || !mem_grow(&p, &out->cap, out->n + 1, sizeof *out->key)) {
        mem_free(copy);
        return err_memory(e, path);
    }
    memcpy(copy, line.p, line.n);
    for (char *mark = copy; (mark = strchr(mark, '#')); mark++) {
        if (mark == copy || !strchr(" \t", mark[-1])) continue;
        *mark = ' ';
        size_t end = (size_t)(mark - copy);
        while (end && strchr(" \t", copy[end - 1])) end--;
        copy[end] = 0;
        break;
    }
    out->key = p;
    out->key[out->n++] = copy;
    return OK;
}

int keys_read(key_list *out, const char *path, err *e)
{
    *out = (key_list){0};
    buf b = {0};
    int rc = file_read_text(&b, path, KEY_FILE_MAX, e);
    for (size_t at = 0; !rc && at < b.n;) {
        const uint8_t *nl = memchr(b.p + at, '\n', b.n - at);
        size_t end = nl ? (size_t)(nl - b.p) : b.n;
        rc = add_key(out, span_of(b.p + at, end - at), path, e);
        at = end + 1;
    }
    if (!rc && !out->n) rc = err_set(e, ERR_USAGE, "%s: holds no key (one per line)", path);
    buf_free(&b);
    if (rc) keys_free(out);
    return rc;
}

int keys_find(const key_list *l, const char *key)
{
    size_t n = strlen(key);
    int found = -1;
    for (size_t i = 0; i < l->n; i++) {
        size_t len = strlen(l->key[i]);
        unsigned differ = len != n;
        for (size_t k = 0; k < n; k++) differ |= (unsigned char)key[k] ^ (unsigned char)l->key[i][len ? k % len : 0];
        found = differ ? found : (int)i;
    }
    return found;
}

const char *keys_name(const key_list *l, int which, char made[24])
{
    const char *name = l->key[which] + strlen(l->key[which]) + 1;
    name += strspn(name, " \t");
    if (*name) return name;
    snprintf(made, 24, "key %d", which + 1);
    return made;
}
