/* ckpt.c - see ckpt.h and ckpt_build.h: opening, the checks that hold for every format, look-ups.
 *
 * It opens formats through format_list.h, and they add their tensors with functions of this file: the one loop of calls
 * in src/io.
 *
 * Files are hostile until proved otherwise. What a format says about a tensor is believed only after ckpt_add has
 * compared it with the mapping; a name is known once; and when all files are listed, tensors sorted by address must not
 * overlap. */
#include "io/ckpt.h"

#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "io/ckpt_build.h"
#include "io/ckpt_pick.h"
#include "io/format_list.h"
#include "io/self_contained.h"
#include "tensor/panel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES_MAX = 1024, REWRITTEN_FACTOR = 8 };
static const uint64_t side_max = 1u << 29, rewritten_free = 64u << 20;

typedef struct mapped_file {
    char *path;
    file_mapping *mapping; /* NULL for bytes in memory */
    span bytes;
} mapped_file;

typedef struct side_file {
    struct side_file *next;
    char *name;
    json *root;
} side_file;

typedef struct meta_value {
    char *key;
    ckpt_array value;
    bool scalar;
} meta_value;

struct ckpt {
    arena mem;
    char *path, *dir; /* dir NULL: bytes in memory, no side files */
    const ckpt_reader *format;
    ckpt_entry *entry;
    size_t n, cap;
    map names;
    mapped_file *file;
    size_t n_file, file_cap;
    uint64_t rewritten;
    json *config, *metadata;
    file_folder files; /* where side files are */
    side_file *side;
    meta_value *meta;
    size_t n_meta, meta_cap;
    const char *part;    /* while files of a part are listed: what stands in front of names; else NULL */
    ckpt_entry **joined; /* each by itself: pointers to them stay */
    size_t n_joined, joined_cap;
    map joined_names;
    bool *aside; /* [n_aside] of the tensors that there were then */
    size_t n_aside;
    json *index;  /* weight map of a sharded model, NULL: none */
    map index_of; /* tensor name -> file number */
};

#define X(name) extern const ckpt_reader format_##name;
FORMAT_LIST(X)
#undef X
static const ckpt_reader *const formats[] = {
#define X(name) &format_##name,
    FORMAT_LIST(X)
#undef X
};

uint32_t ckpt_file_count(const ckpt *c) { return (uint32_t)c->n_file; }
span ckpt_file_bytes(const ckpt *c, uint32_t file) { return c->file[file].bytes; }

bool ckpt_file_id(const ckpt *c, uint32_t file, file_id *out)
{
    const file_mapping *m = c->file[file].mapping;
    if (m) *out = file_mapped_id(m);
    return m != NULL;
}

/* ---- listing */

static int check_name(const ckpt *c, span name, err *e)
{
    int shown = name.n < 80 ? (int)name.n : 80;
    const char *p = (const char *)name.p;
    if (name.n == 0) return err_set(e, ERR_FORMAT, "a tensor has an empty name");
    if (name.n > CKPT_NAME_MAX) return err_set(e, ERR_FORMAT, "a tensor's name has %zu bytes", name.n);
    if (memchr(p, 0, name.n) || !utf8_is_valid(name))
        return err_set(e, ERR_FORMAT, "tensor name \"%.*s\" is not UTF-8 text", shown, p);
    uint32_t other = map_get(&c->names, name);
    if (other == MAP_NONE) return OK;
    const char *where = ckpt_file(c, c->entry[other].file);
    return err_set(e, ERR_FORMAT, "tensor \"%.*s\" appears twice (also in %s)", shown, p, where);
}

bool ckpt_tensor_bytes(dtype type, bool packed, const shape *dims, uint64_t *need)
{
    uint64_t count;
    int64_t cols = dims->rank ? dims->dim[dims->rank - 1] : 1;
    if (type <= DTYPE_NONE || type >= DTYPE_COUNT) return false;
    if (!packed)
        return cols % dtype_info[type].weights == 0 && shape_count(dims, &count) && dtype_bytes(type, count, need);
    if (dims->rank < 2 || dims->rank > 3 || !panel_format_of(type) || !shape_count(dims, &count) || !count ||
        cols > INT32_MAX)
        return false;
    uint64_t rows = count / (uint64_t)cols;
    return rows <= INT32_MAX && mem_mul((rows + PANEL_ROWS - 1) / PANEL_ROWS, panel_bytes(type, cols), need);
}

/* Appends an entry like `as` after checks of name, type, shape, `bytes`. *skip: the index places it in another file. */
static int add_entry(ckpt *c, span name, const ckpt_entry *as, const uint64_t *bytes, ckpt_entry **out, bool *skip,
                     err *e)
{
    char full[CKPT_NAME_MAX + 1];
    if (c->part && name.n <= CKPT_NAME_MAX) {
        const int n = snprintf(full, sizeof full, "%s.%.*s", c->part, (int)name.n, (const char *)name.p);
        if (n < 0 || (size_t)n >= sizeof full) return err_set(e, ERR_FORMAT, "a tensor's name is too long");
        name = span_of(full, (size_t)n);
    }
    uint32_t place = c->index ? map_get(&c->index_of, name) : MAP_NONE;
    const shape *dims = &as->dims;
    *skip = place != MAP_NONE && place != as->file;
    if (*skip) return OK;
    int rc = check_name(c, name, e);
    if (rc) return rc;
    int shown = name.n < 80 ? (int)name.n : 80;
    uint64_t count, need;
    char text[200];
    if (dims->rank < 0 || dims->rank > SHAPE_MAX || !shape_count(dims, &count))
        return err_set(e, ERR_FORMAT, "tensor \"%.*s\": impossible shape", shown, (const char *)name.p);
    shape_text(dims, text, sizeof text);
    if (!ckpt_tensor_bytes(as->type, as->packed, dims, &need))
        return err_set(e, ERR_FORMAT, "tensor \"%.*s\": shape %s does not fit type %s", shown, (const char *)name.p,
                       text, as->type < DTYPE_COUNT ? dtype_info[as->type].name : "?");
    if (bytes && *bytes != need)
        return err_set(e, ERR_FORMAT, "tensor \"%.*s\": %s of %s needs %llu bytes, the file gives it %llu", shown,
                       (const char *)name.p, text, dtype_info[as->type].name, (unsigned long long)need,
                       (unsigned long long)*bytes);
    if (c->n >= CKPT_TENSORS_MAX) return err_set(e, ERR_LIMIT, "more than %d tensors", CKPT_TENSORS_MAX);
    char *copy = arena_strn(&c->mem, (const char *)name.p, name.n);
    if (!copy || !mem_grow((void **)&c->entry, &c->cap, c->n + 1, sizeof *c->entry) ||
        !map_put(&c->names, span_str(copy), (uint32_t)c->n))
        return err_memory(e, NULL);
    ckpt_entry *t = &c->entry[c->n++];
    *t = *as;
    t->name = copy;
    t->bytes = need;
    *out = t;
    return OK;
}

static int add_in_file(ckpt *c, span name, const ckpt_entry *as, uint64_t offset, uint64_t bytes, err *e)
{
    span all = ckpt_file_bytes(c, as->file);
    if (offset > all.n || bytes > all.n - offset)
        return err_set(
            e, ERR_FORMAT,
            "tensor \"%.*s\": bytes %llu to %llu+%llu lie outside the file (%zu bytes): incomplete download?",
            name.n < 80 ? (int)name.n : 80, (const char *)name.p, (unsigned long long)offset,
            (unsigned long long)offset, (unsigned long long)bytes, all.n);
    ckpt_entry *t;
    bool skip;
    int rc = add_entry(c, name, as, &bytes, &t, &skip, e);
    if (!rc && !skip) t->data = all.p + offset;
    return rc;
}

int ckpt_add(ckpt *c, uint32_t file, span name, dtype type, const shape *dims, uint64_t offset, uint64_t bytes, err *e)
{
    return add_in_file(c, name, &(ckpt_entry){.type = type, .dims = *dims, .file = file}, offset, bytes, e);
}

int ckpt_add_packed(ckpt *c, uint32_t file, span name, dtype type, const shape *dims, uint64_t offset, uint64_t bytes,
                    err *e)
{
    const ckpt_entry as = {.type = type, .dims = *dims, .file = file, .packed = true};
    return add_in_file(c, name, &as, offset, bytes, e);
}

int ckpt_add_rewritten(ckpt *c, uint32_t file, span name, dtype type, const shape *dims, uint8_t **data, err *e)
{
    ckpt_entry *t;
    bool skip;
    static uint8_t nothing[1];
    *data = nothing;
    int rc = add_entry(c, name, &(ckpt_entry){.type = type, .dims = *dims, .file = file}, NULL, &t, &skip, e);
    if (rc) return rc;
    if (skip) return err_set(e, ERR_FORMAT, "a tensor that must be rewritten lies in two files");
    uint64_t limit = rewritten_free, total = 0;
    for (size_t i = 0; i < c->n_file; i++) limit += c->file[i].bytes.n * REWRITTEN_FACTOR;
    if (!mem_add(c->rewritten, t->bytes, &total) || total > limit)
        return err_set(e, ERR_LIMIT,
                       "tensor \"%s\": tensors that do not lie in the file as they are used need more than %llu bytes",
                       t->name, (unsigned long long)limit);
    c->rewritten = total;
    *data = arena_alloc(&c->mem, t->bytes);
    t->data = *data;
    return *data ? OK : err_memory(e, NULL);
}

static int open_source(ckpt *c, const char *path, uint32_t *file, err *e)
{
    if (c->n_file >= FILES_MAX) return err_set(e, ERR_LIMIT, "more than %d files", FILES_MAX);
    if (!mem_grow((void **)&c->file, &c->file_cap, c->n_file + 1, sizeof *c->file)) return err_memory(e, NULL);
    mapped_file *s = &c->file[c->n_file];
    *s = (mapped_file){.path = arena_str(&c->mem, path)};
    if (!s->path) return err_memory(e, NULL);
    int rc = file_map(&s->mapping, path, e);
    if (rc) return rc;
    s->bytes = file_bytes(s->mapping);
    *file = (uint32_t)c->n_file++;
    return OK;
}

int ckpt_add_file(ckpt *c, const char *name, uint32_t *file, err *e)
{
    if (!c->dir) return err_set(e, ERR_FORMAT, "part %s is missing: only one file was given", name);
    char *path;
    int rc = ckpt_part_path(&path, c->dir, name, e);
    err own = {0};
    if (!rc && open_source(c, path, file, &own))
        rc = own.code == ERR_NOT_FOUND ? ckpt_say_missing(c->dir, name, e) : err_copy(e, &own);
    mem_free(path);
    return rc;
}

void ckpt_set_config(ckpt *c, json *config)
{
    if (c->config) json_free(config);
    else c->config = config;
}

void ckpt_set_metadata(ckpt *c, json *metadata)
{
    if (c->metadata) json_free(metadata);
    else c->metadata = metadata;
}

int ckpt_add_meta(ckpt *c, span key, const ckpt_array *a, bool scalar, err *e)
{
    if (c->config) return OK; /* of a later part of a split model */
    char *copy = arena_strn(&c->mem, (const char *)key.p, key.n);
    if (!copy || !mem_grow((void **)&c->meta, &c->meta_cap, c->n_meta + 1, sizeof *c->meta)) return err_memory(e, NULL);
    c->meta[c->n_meta++] = (meta_value){copy, *a, scalar};
    return OK;
}

/* ---- opening */

static int list_file(ckpt *c, uint32_t file, err *e)
{
    const char *path = c->file[file].path;
    int best = 0;
    const ckpt_reader *f = NULL;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        int score = formats[i]->probe(c->file[file].bytes);
        if (score > best) {
            best = score;
            f = formats[i];
        }
    }
    if (!f) {
        char known[200] = "";
        for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
            if (i) strncat(known, ", ", sizeof known - strlen(known) - 1);
            strncat(known, formats[i]->name, sizeof known - strlen(known) - 1);
        }
        return err_set(e, ERR_FORMAT, "%s: not a model file (known formats: %s)", path, known);
    }
    if (c->format && c->format != f)
        return err_set(e, ERR_FORMAT, "%s: is %s, but the files before it are %s", path, f->name, c->format->name);
    c->format = f;
    int rc = f->list(c, file, e);
    if (rc) {
        err_wrap(e, "%s", path);
        return rc;
    }
    return OK;
}

static int by_address(const void *pa, const void *pb)
{
    const ckpt_entry *a = *(const ckpt_entry *const *)pa, *b = *(const ckpt_entry *const *)pb;
    if (a->data != b->data) return a->data < b->data ? -1 : 1;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

static int check_overlaps(const ckpt *c, err *e)
{
    const ckpt_entry **sorted = mem_array(c->n, sizeof *sorted);
    if (!sorted) return err_memory(e, NULL);
    for (size_t i = 0; i < c->n; i++) sorted[i] = &c->entry[i];
    qsort(sorted, c->n, sizeof *sorted, by_address);
    int rc = OK;
    for (size_t i = 1; i < c->n && !rc; i++)
        if (sorted[i - 1]->data + sorted[i - 1]->bytes > sorted[i]->data)
            rc = err_set(e, ERR_FORMAT, "%s: tensors \"%s\" and \"%s\" overlap", ckpt_file(c, sorted[i]->file),
                         sorted[i - 1]->name, sorted[i]->name);
    mem_free(sorted);
    return rc;
}

/* config.json beside the weights, where the format itself brought none (or only values beside the weights). */
static int read_config(ckpt *c, err *e)
{
    if (!c->dir || c->format->source || ckpt_own_spec(c)) return OK;
    char *path = file_join(c->dir, "config.json");
    json *config = NULL;
    int rc = path ? OK : err_memory(e, NULL);
    if (!rc && file_exists(path)) rc = json_read(&config, path, side_max, e);
    mem_free(path);
    if (config) {
        json_free(c->config);
        c->config = config;
    }
    return rc;
}

/* The folder; a self-contained model looks at none. */
static int find_files(ckpt *c, err *e)
{
    c->files = (file_folder){.path = c->dir && !ckpt_own_spec(c) ? c->dir : c->path};
    c->files.held = c->files.path == c->path;
    int rc = ckpt_own_spec(c) ? self_files(c->metadata, &c->mem, &c->files.file, &c->files.n, e) : OK;
    return rc ? err_wrap(e, "%s", c->path) : OK;
}

static int finish_ckpt(ckpt *c, err *e)
{
    int rc = OK;
    if (c->n == 0 && !c->format->may_be_empty) return err_set(e, ERR_FORMAT, "%s: holds no tensors", c->path);
    for (const json *m = json_first(json_get(c->index, "weight_map")); m; m = json_next(m))
        if (!ckpt_find(c, json_key(m)))
            return err_set(e, ERR_FORMAT, "%s: the index places tensor \"%s\" in %s, which has none of that name",
                           c->path, json_key(m), json_str(m, "?"));
    if (!c->format->may_share) rc = check_overlaps(c, e);
    if (!rc) rc = find_files(c, e);
    if (!rc) rc = read_config(c, e);
    if (!rc) rc = ckpt_check_torn(c, e);
    return rc;
}

/* Reads the weight map of a sharded model: opens every file it names, in order of name. */
static int open_index(ckpt *c, const char *path, err *e)
{
    int rc = json_read(&c->index, path, side_max, e);
    char **names = NULL;
    size_t n = 0;
    if (!rc) rc = ckpt_index_files(c->index, path, &names, &n, e);
    map numbers = {0};
    for (size_t i = 0; i < n && !rc; i++) {
        uint32_t file;
        rc = ckpt_add_file(c, names[i], &file, e);
        if (!rc && !map_put(&numbers, span_str(names[i]), file)) rc = err_memory(e, NULL);
    }
    for (const json *m = json_first(json_get(c->index, "weight_map")); m && !rc; m = json_next(m))
        if (!map_put(&c->index_of, span_str(json_key(m)), map_get_str(&numbers, json_str(m, ""))))
            rc = err_memory(e, NULL);
    map_free(&numbers);
    for (size_t i = 0; i < n && !rc; i++) rc = list_file(c, (uint32_t)i, e);
    ckpt_names_free(names, n);
    return rc;
}

static int open_path(ckpt *c, const char *path, err *e)
{
    char **names = NULL;
    size_t n = 0;
    int rc = OK;
    if (file_is_dir(path)) {
        char *dir = folder_of_model(path);
        c->dir = dir ? arena_str(&c->mem, dir) : NULL;
        mem_free(dir);
        if (!c->dir) return err_memory(e, NULL);
        rc = ckpt_pick_files(c->dir, &names, &n, e);
    } else {
        char *dir = file_dir(path);
        c->dir = arena_str(&c->mem, dir ? dir : "");
        mem_free(dir);
        const char *slash = strrchr(path, '/');
        names = mem_zero(1, sizeof *names);
        if (!c->dir || !c->dir[0] || !names || !(names[n++] = mem_str(slash ? slash + 1 : path)))
            rc = err_memory(e, NULL);
        if (!rc) rc = ckpt_prefer_index(c->dir, &names[0], e);
    }
    for (size_t i = 0; i < n && !rc; i++) {
        char *full = file_join(c->dir, names[i]);
        uint32_t file;
        bool index = false;
        rc = !full ? err_memory(e, NULL) : n == 1 ? ckpt_is_index(full, &index, e) : OK;
        if (!rc && index) rc = open_index(c, full, e);
        else if (!rc && !(rc = open_source(c, full, &file, e))) rc = list_file(c, file, e);
        mem_free(full);
    }
    ckpt_names_free(names, n);
    return rc;
}

/* Whether the checkpoint has a name that begins with "folder.". */
static bool has_part(const ckpt *c, const char *folder)
{
    const size_t n = strlen(folder);
    bool has = false;
    for (size_t i = 0; i < c->n && !has; i++)
        has = strncmp(c->entry[i].name, folder, n) == 0 && c->entry[i].name[n] == '.';
    return has;
}

/* The file with the weights of a folder beside those of the checkpoint; NULL: there is none, or memory is short. */
static char *part_file(const ckpt *c, const char *folder)
{
    static const char *const names[] = {"model.safetensors", "pytorch_model.bin"};
    char *dir = c->dir ? file_join(c->dir, folder) : NULL, *path = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && dir && !path; i++) {
        path = file_join(dir, names[i]);
        if (path && !file_exists(path)) {
            mem_free(path);
            path = NULL;
        }
    }
    mem_free(dir);
    return path;
}

int ckpt_add_part(ckpt *c, const char *folder, err *e)
{
    if (has_part(c, folder)) return OK;
    char *path = part_file(c, folder);
    if (!path) return err_set(e, ERR_NOT_FOUND, "%s: its module %.80s has no weights", c->path, folder);
    const ckpt_reader *format = c->format;
    uint32_t file;
    c->format = NULL;
    c->part = folder;
    int rc = open_source(c, path, &file, e);
    if (!rc) rc = list_file(c, file, e);
    if (!rc && !format->may_share && !c->format->may_share) rc = check_overlaps(c, e);
    c->part = NULL;
    c->format = format;
    mem_free(path);
    return rc;
}

static ckpt *ckpt_new(const char *path)
{
    ckpt *c = mem_zero(1, sizeof *c);
    if (c && (c->path = arena_str(&c->mem, path))) return c;
    ckpt_close(c);
    return NULL;
}

int ckpt_open(ckpt **out, const char *path, err *e)
{
    *out = NULL;
    ckpt *c = ckpt_new(path);
    if (!c) return err_memory(e, NULL);
    int rc = open_path(c, path, e);
    if (!rc) rc = finish_ckpt(c, e);
    if (rc) ckpt_close(c);
    else *out = c;
    return rc;
}

int ckpt_open_bytes(ckpt **out, span bytes, const char *name, err *e)
{
    *out = NULL;
    ckpt *c = ckpt_new(name);
    if (!c) return err_memory(e, NULL);
    int rc = OK;
    if (!mem_grow((void **)&c->file, &c->file_cap, 1, sizeof *c->file)) {
        rc = err_memory(e, NULL);
    } else {
        c->file[c->n_file++] = (mapped_file){.path = c->path, .bytes = bytes};
        rc = list_file(c, 0, e);
    }
    if (!rc) rc = finish_ckpt(c, e);
    if (rc) ckpt_close(c);
    else *out = c;
    return rc;
}

int ckpt_begin_listed(ckpt **out, const char *path, const char *name, const char *format, err *e)
{
    uint32_t file;
    ckpt *c = *out = ckpt_new(name);
    if (!c) return err_memory(e, NULL);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i]->name, format) == 0) c->format = formats[i];
    return c->format ? open_source(c, path, &file, e) : err_set(e, ERR_FORMAT, "unknown format \"%.40s\"", format);
}

int ckpt_finish_listed(ckpt *c, err *e) { return finish_ckpt(c, e); }

void ckpt_close(ckpt *c)
{
    if (!c) return;
    for (size_t i = 0; i < c->n_file; i++) file_unmap(c->file[i].mapping);
    for (side_file *s = c->side; s; s = s->next) json_free(s->root);
    json_free(c->config);
    json_free(c->metadata);
    json_free(c->index);
    map_free(&c->names);
    map_free(&c->joined_names);
    map_free(&c->index_of);
    mem_free(c->joined);
    mem_free(c->aside);
    mem_free(c->entry);
    mem_free(c->file);
    mem_free(c->meta);
    arena_free(&c->mem);
    mem_free(c);
}

/* ---- asking */

const char *ckpt_path(const ckpt *c) { return c->path; }
const char *ckpt_format(const ckpt *c) { return c->format->name; }
const char *ckpt_source(const ckpt *c) { return c->format->source ? c->format->source : "hf"; }
bool ckpt_describes_itself(const ckpt *c) { return c->format->source != NULL; }
bool ckpt_keys_have_arch(const ckpt *c) { return c->format->arch_key != NULL; }
bool ckpt_has_factors(const ckpt *c) { return c->format->has_factors; }
uint32_t ckpt_count(const ckpt *c) { return (uint32_t)c->n; }
const ckpt_entry *ckpt_at(const ckpt *c, uint32_t i) { return &c->entry[i]; }
const char *ckpt_file(const ckpt *c, uint32_t file) { return c->file[file].path; }
const char *ckpt_dir(const ckpt *c) { return c->dir ? c->dir : ""; }
const json *ckpt_config(const ckpt *c) { return c->config; }
const json *ckpt_metadata(const ckpt *c) { return c->metadata; }

bool ckpt_is_source(span name)
{
    bool is = span_is(name, "hf");
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        is |= formats[i]->source && span_is(name, formats[i]->source);
    return is;
}

const char *ckpt_arch(const ckpt *c)
{
    const char *key = c->format->arch_key;
    return key ? json_str(json_get(c->config, key), "unknown") : c->format->arch;
}

const ckpt_entry *ckpt_find(const ckpt *c, const char *name)
{
    uint32_t i = map_get_str(&c->joined_names, name);
    if (i != MAP_NONE) return c->joined[i];
    i = map_get_str(&c->names, name);
    return i == MAP_NONE ? NULL : &c->entry[i];
}

uint32_t ckpt_index(const ckpt *c, const ckpt_entry *t) { return t->stored ? t->of : (uint32_t)(t - c->entry); }

/* ---- joining */

void *ckpt_memory(ckpt *c, size_t bytes) { return arena_alloc(&c->mem, bytes); }

int ckpt_set_aside(ckpt *c, uint32_t i, err *e)
{
    if (!c->aside && !(c->aside = mem_zero(c->n, sizeof *c->aside))) return err_memory(e, c->path);
    if (!c->n_aside) c->n_aside = c->n;
    c->aside[i] = true;
    return OK;
}

bool ckpt_is_aside(const ckpt *c, uint32_t i) { return i < c->n_aside && c->aside[i]; }

int ckpt_join(ckpt *c, const char *name, const ckpt_entry *as, err *e)
{
    ckpt_entry *t = arena_alloc(&c->mem, sizeof *t);
    if (!t || !mem_grow((void **)&c->joined, &c->joined_cap, c->n_joined + 1, sizeof *c->joined) ||
        !map_put(&c->joined_names, span_str(name), (uint32_t)c->n_joined))
        return err_memory(e, c->path);
    const ckpt_entry *codes = &c->entry[as->of];
    *t = *as;
    t->name = name;
    t->data = codes->data;
    t->bytes = codes->bytes;
    t->file = codes->file;
    c->joined[c->n_joined++] = t;
    int rc = OK;
    for (int i = 1; i < as->stored->n_source && !rc; i++) rc = ckpt_set_aside(c, as->stored->source[i].entry, e);
    return rc;
}

bool ckpt_entry_mapped(const ckpt *c, const ckpt_entry *t)
{
    span all = ckpt_file_bytes(c, t->file);
    return t->data >= all.p && t->data <= all.p + all.n;
}

const file_folder *ckpt_folder(const ckpt *c) { return &c->files; }

/* The value of a key of a self-contained model. */
static const char *metadata_text(const ckpt *c, const char *key)
{
    return json_get(c->metadata, SELF_LAYOUT) ? json_str(json_get(c->metadata, key), NULL) : NULL;
}

const char *ckpt_own_spec(const ckpt *c) { return metadata_text(c, SELF_SPEC); }
const char *ckpt_tokenizer_file(const ckpt *c) { return metadata_text(c, SELF_TOKENIZER); }

const json *ckpt_side_json(ckpt *c, const char *name, err *e)
{
    for (const side_file *s = c->side; s; s = s->next)
        if (strcmp(s->name, name) == 0) return s->root;
    if (!folder_has(&c->files, name)) return NULL;
    side_file *s = arena_alloc(&c->mem, sizeof *s);
    if (!s || !(s->name = arena_str(&c->mem, name))) return err_memory(e, NULL), NULL;
    if (folder_json(&s->root, &c->files, name, side_max, e) == OK) {
        s->next = c->side;
        c->side = s;
    }
    return s->root;
}

bool ckpt_meta_array(const ckpt *c, const char *key, ckpt_array *out)
{
    for (size_t i = 0; i < c->n_meta; i++)
        if (!c->meta[i].scalar && strcmp(c->meta[i].key, key) == 0) {
            *out = c->meta[i].value;
            return true;
        }
    return false;
}

bool ckpt_meta_at(const ckpt *c, uint32_t i, const char **key, ckpt_array *out, bool *scalar)
{
    if (i >= c->n_meta) return false;
    *key = c->meta[i].key;
    *out = c->meta[i].value;
    *scalar = c->meta[i].scalar;
    return true;
}

int ckpt_check_torn(const ckpt *c, err *e)
{
    for (size_t i = 0; i < c->n_file; i++)
        if (c->file[i].mapping && file_torn(c->file[i].mapping))
            return err_set(e, ERR_UNAVAILABLE, "%s: became shorter, or could not be read, while it was used",
                           c->file[i].path);
    return OK;
}

int ckpt_look(ckpt *c, bool *touched, err *e)
{
    for (size_t i = 0; i < c->n_file; i++) {
        const file_state now = c->file[i].mapping ? file_look(c->file[i].mapping) : FILE_SAME;
        if (now == FILE_WRITTEN)
            return err_set(e, ERR_UNAVAILABLE, "%s: was written to while it was used", c->file[i].path);
        if (now == FILE_TORN) return ckpt_check_torn(c, e);
        if (now == FILE_TOUCHED) *touched = true;
    }
    return OK;
}

int ckpt_restore(ckpt *c, err *e)
{
    int rc = OK;
    for (size_t i = 0; i < c->n_file && !rc; i++) {
        file_mapping *m = c->file[i].mapping;
        if (m && file_look(m) != FILE_SAME) rc = file_restore(m, c->file[i].path, e);
    }
    return rc;
}
