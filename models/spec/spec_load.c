/* spec_load.c - see spec_load.h.
 *
 * Bases are read first-to-last up the chain, then merged from the deepest: a nearer file replaces single keys; slots
 * merge option by option (spec_slot.c). `arch` and `base` themselves are not inherited. */
#include "models/spec/spec_load.h"

#include "base/embed.h"
#include "base/file.h"
#include "base/mem.h"
#include "models/spec/spec_file.h"
#include "models/spec/spec_keys.h"
#include "models/spec/spec_slot.h"
#include "models/spec/spec_validate.h"

#include <stdio.h>
#include <string.h>

static const char *const sections[] = {"model",     "config",   "network", "tensors", "config.json", "gguf",
                                       "tokenizer", "generate", "runtime", "serve",   "chat"};

static bool is_layer(const char *section) { return strncmp(section, "layer ", 6) == 0 && section[6]; }

static int check_section(const char *section, const char *where, err *e)
{
    const char *near = NULL;
    int best = 3;
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        int d = edit_distance(section, sections[i]);
        if (d == 0) return OK;
        if (d < best) near = sections[i], best = d;
    }
    if (is_layer(section)) return OK;
    return err_set(e, ERR_SPEC, "%s: unknown section [%s]%s%s%s", where, section, near ? ": did you mean [" : "",
                   near ? near : "", near ? "]?" : "");
}

/* ---- rows */

static int key_of(spec *s, const char *section, const char *key, span *id, err *e)
{
    size_t a = strlen(section), b = strlen(key);
    char *both = arena_alloc(&s->mem, a + b + 1);
    if (!both) return err_memory(e, "a spec");
    memcpy(both, section, a);
    memcpy(both + a + 1, key, b);
    *id = span_of(both, a + 1 + b);
    return OK;
}

static int set_row(spec *s, const spec_row *r, err *e)
{
    span id;
    const spec_row *old = spec_find(s, r->section, r->key);
    if (old) {
        if (!spec_replaced(s, old->text)) return err_memory(e, "a spec");
        s->rows[old - s->rows] = *r;
        return OK;
    }
    int rc = key_of(s, r->section, r->key, &id, e);
    if (rc) return rc;
    if (!mem_grow((void **)&s->rows, &s->cap, s->n + 1, sizeof *s->rows) || !map_put(&s->by_key, id, (uint32_t)s->n))
        return err_memory(e, "a spec");
    s->rows[s->n++] = *r;
    return OK;
}

int spec_put(spec *s, const char *section, const char *key, const char *text, err *e)
{
    spec_row r = {.section = arena_str(&s->mem, section),
                  .key = arena_str(&s->mem, key),
                  .text = arena_str(&s->mem, text),
                  .where = s->file,
                  .depth = 1};
    bool config = strcmp(section, "config") == 0;
    if (!r.section || !r.key || !r.text) return err_memory(e, "a spec");
    int rc = config ? expr_parse(&r.value, &s->mem, r.text, key, e) : OK;
    return rc ? rc : set_row(s, &r, e);
}

static int add_class(spec *s, const char *section, err *e)
{
    for (size_t i = 0; i < s->n_class; i++)
        if (strcmp(s->classes[i].section, section) == 0) return OK;
    if (!mem_grow((void **)&s->classes, &s->cap_class, s->n_class + 1, sizeof *s->classes))
        return err_memory(e, "a spec");
    s->classes[s->n_class++] = (spec_class){section + 6, section};
    return OK;
}

/* ---- which rows are slots: every key of [network] that is not a fixed one; in layers, keys of such names */

static bool is_fixed_network_key(const char *key)
{
    size_t n;
    const param *rows = spec_section_rows("network", &n);
    return param_find(rows, n, key) != NULL;
}

static bool is_slot(const spec *s, const char *section, const char *key)
{
    if (strcmp(section, "network") == 0) return !is_fixed_network_key(key);
    if (!is_layer(section)) return false;
    char head[64];
    size_t n = strcspn(key, ".");
    if (n >= sizeof head) return false;
    memcpy(head, key, n);
    head[n] = 0;
    return spec_slot_find(s, "network", key) || spec_slot_find(s, "network", head);
}

/* ---- files */

typedef struct loaded {
    spec_file file;
    const char *what, *dir, *base;
} loaded;

static const char *row_text(const spec_file *f, const char *section, const char *key)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->rows[i].section, section) == 0 && strcmp(f->rows[i].key, key) == 0) return f->rows[i].text;
    return NULL;
}

static int parse_text(spec *s, loaded *l, span text, const char *what, const char *dir, err *e)
{
    l->what = arena_str(&s->mem, what);
    l->dir = arena_str(&s->mem, dir);
    if (!l->what || !l->dir) return err_memory(e, "a spec");
    int rc = spec_file_parse(&l->file, text, l->what, e);
    if (!rc) l->base = row_text(&l->file, "model", "base");
    return rc;
}

static int read_disk(spec *s, loaded *l, const char *path, err *e)
{
    buf b = {0};
    char *dir = file_dir(path);
    int rc = dir ? file_read_text(&b, path, SPEC_BYTES_MAX, e) : err_memory(e, "a spec");
    if (!rc) rc = parse_text(s, l, buf_span(&b), path, dir, e);
    mem_free(dir);
    buf_free(&b);
    return rc;
}

static bool names_a_file(const char *name)
{
    size_t n = strlen(name);
    return strchr(name, '/') || (n > 4 && strcmp(name + n - 4, ".ini") == 0) ||
           (n > 5 && strcmp(name + n - 5, ".json") == 0);
}

const char *spec_builtin_name(size_t i)
{
    for (const embedded_file *f = embedded_files; f->name; f++) {
        size_t n = strlen(f->name);
        if (n > 4 && strcmp(f->name + n - 4, ".ini") == 0 && i-- == 0) return f->name;
    }
    return NULL;
}

static int read_builtin(spec *s, loaded *l, const char *name, const char *where, err *e)
{
    char file[128];
    snprintf(file, sizeof file, "%s.ini", name);
    span text = embedded_find(file);
    if (text.p) return parse_text(s, l, text, file, "", e);
    const char *near = NULL, *known;
    int best = 4;
    for (size_t i = 0; (known = spec_builtin_name(i)); i++) {
        int d = edit_distance(file, known);
        if (d < best) near = known, best = d;
    }
    return err_set(e, ERR_NOT_FOUND, "%sno built-in spec is called '%s'%s%.*s%s", where, name,
                   near ? ": did you mean '" : " (inferflow spec list shows them; a file ends in .ini or .json)",
                   near ? (int)strlen(near) - 4 : 0, near ? near : "", near ? "'?" : "");
}

static int read_base(spec *s, loaded *l, const loaded *child, err *e)
{
    char where[256] = "";
    snprintf(where, sizeof where, "%s: base: ", child->what);
    if (!names_a_file(child->base)) return read_builtin(s, l, child->base, where, e);
    char *path = *child->dir ? file_join(child->dir, child->base) : mem_str(child->base);
    int rc = path ? read_disk(s, l, path, e) : err_memory(e, "a spec");
    mem_free(path);
    if (rc) err_wrap(e, "%s: base", child->what);
    return rc;
}

/* ---- merging */

/* Keys that identify a file or family are not inherited; those that describe it are. */
static bool is_inherited(const file_row *f)
{
    static const char *const own[][2] = {{"model", "arch"},
                                         {"model", "doc"},
                                         {"model", "code"},
                                         {"model", "base"},
                                         {"config.json", "architectures"},
                                         {"config.json", "model_type"}};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(f->section, own[i][0]) == 0 && strcmp(f->key, own[i][1]) == 0) return false;
    return true;
}

/* Sizes that a class has where a configuration is silent: of a built-in family, not of those built upon it. */
static bool is_of_the_class(const file_row *f)
{
    return strcmp(f->section, "model") == 0 && strcmp(f->key, "absent") == 0;
}

/* below: the file whose base it is, or NULL. */
static int merge_file(spec *s, const loaded *l, const loaded *below, int depth, err *e)
{
    const char *unknown = "";
    const size_t replaced = s->replaced.n;
    for (int pass = 0; pass < 2; pass++) /* slots of [network] first: they say what a key of a layer is */
        for (size_t i = 0; i < l->file.n; i++) {
            const file_row *f = &l->file.rows[i];
            bool network = strcmp(f->section, "network") == 0;
            if (network != (pass == 0)) continue;
            if (depth && !is_inherited(f)) continue;
            if (below && !*below->dir && embedded_find(below->what).p && is_of_the_class(f)) continue;
            spec_row r = {.section = arena_str(&s->mem, f->section),
                          .key = arena_str(&s->mem, f->key),
                          .text = arena_str(&s->mem, f->text),
                          .depth = depth,
                          .users = *l->dir != 0,
                          .where = arena_printf(&s->mem, "%s:%d", l->what, f->line)};
            if (!r.section || !r.key || !r.text || !r.where) return err_memory(e, "a spec");
            if (strcmp(r.section, unknown) == 0) continue; /* one mistake */
            int rc = check_section(r.section, r.where, e);
            if (rc) unknown = r.section;
            if (!rc && is_layer(r.section)) rc = add_class(s, r.section, e);
            if (!rc && *r.key)
                rc = is_slot(s, r.section, r.key) ? spec_slot_merge(s, r.section, r.key, r.text, r.where, depth == 0, e)
                                                  : set_row(s, &r, e);
            if ((rc = mistake_noted(s->noted, rc, e))) return rc;
        }
    if (!*l->dir) s->replaced.n = replaced; /* a built-in spec: what it replaces is not read for its family */
    return OK;
}

static int merge_chain(spec *s, loaded *chain, int n, int depth0, err *e)
{
    int rc = OK;
    for (int i = n; i-- > 0 && !rc;) rc = merge_file(s, &chain[i], i ? &chain[i - 1] : NULL, depth0 + i, e);
    return rc;
}

/* Reads the bases of chain[0] (chain[1] may be read already) and merges all. One without base and block gets `base`. */
static int finish_spec(spec *s, loaded *chain, const char *base, int rc, err *e)
{
    int n = chain[1].what ? 2 : 1;
    if (!rc && !chain[0].base && !row_text(&chain[0].file, "network", "block")) chain[0].base = base;
    while (!rc && chain[n - 1].base) {
        if (n == SPEC_DEPTH_MAX)
            rc = err_set(e, ERR_SPEC, "%s: more than %d bases above each other", chain[0].what, SPEC_DEPTH_MAX);
        else rc = read_base(s, &chain[n], &chain[n - 1], e), n++;
    }
    if (!rc) rc = merge_chain(s, chain, n, 0, e);
    for (int i = 0; i < n; i++) spec_file_free(&chain[i].file);
    return rc;
}

static int conclude(spec **out, spec *s, loaded *chain, const char *base, int rc, err *e)
{
    rc = finish_spec(s, chain, base, rc, e);
    if (!rc) {
        s->file = chain[0].what;
        s->dir = chain[0].dir;
        rc = spec_validate(s, e);
    }
    if (rc) {
        spec_free(s);
        return rc;
    }
    *out = s;
    return OK;
}

int spec_load(spec **out, const char *path, const char *base, err *e)
{
    return spec_load_noting(out, path, base, NULL, e);
}

int spec_load_noting(spec **out, const char *path, const char *base, mistakes *m, err *e)
{
    spec *s = mem_zero(1, sizeof *s);
    loaded chain[SPEC_DEPTH_MAX] = {0};
    if (!s) return err_memory(e, "a spec");
    s->noted = m;
    int rc = names_a_file(path) || strcmp(path, "-") == 0 || file_exists(path) ? read_disk(s, chain, path, e)
                                                                               : read_builtin(s, chain, path, "", e);
    return conclude(out, s, chain, base, rc, e);
}

int spec_load_over(spec **out, const char *path, span base, const char *what, err *e)
{
    spec *s = mem_zero(1, sizeof *s);
    loaded chain[SPEC_DEPTH_MAX] = {0};
    if (!s) return err_memory(e, "a spec");
    int rc = read_disk(s, chain, path, e);
    if (!rc && !chain[0].base && !row_text(&chain[0].file, "network", "block"))
        rc = parse_text(s, &chain[1], base, what, "", e);
    return conclude(out, s, chain, NULL, rc, e);
}

int spec_load_builtin(spec **out, const char *name, err *e)
{
    spec *s = mem_zero(1, sizeof *s);
    loaded chain[SPEC_DEPTH_MAX] = {0};
    if (!s) return err_memory(e, "a spec");
    return conclude(out, s, chain, NULL, read_builtin(s, chain, name, "", e), e);
}

int spec_load_base(spec **out, const spec *child, const char *base, err *e)
{
    spec *s = mem_zero(1, sizeof *s);
    loaded chain[SPEC_DEPTH_MAX] = {0}, from = {.what = child->file, .dir = child->dir, .base = base};
    if (!s) return err_memory(e, "a spec");
    return conclude(out, s, chain, NULL, read_base(s, chain, &from, e), e);
}

int spec_parse(spec **out, span text, const char *what, const char *dir, const char *base, err *e)
{
    spec *s = mem_zero(1, sizeof *s);
    loaded chain[SPEC_DEPTH_MAX] = {0};
    if (!s) return err_memory(e, "a spec");
    return conclude(out, s, chain, base, parse_text(s, chain, text, what, dir, e), e);
}
