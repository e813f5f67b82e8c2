/* zip.c - see zip.h. Source: PKWARE APPNOTE 6.3.10, sections 4.3.7 to 4.3.16 and 4.5.3. */
#include "io/zip.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { LOCAL_SIZE = 30, CENTRAL_SIZE = 46, END_SIZE = 22, LOCATOR64_SIZE = 20, END64_SIZE = 56, COMMENT_MAX = 65535 };
enum { ENTRIES_MAX = 1 << 20, FLAG_ENCRYPTED = 1, FLAG_STRONG = 1 << 6, FLAG_MASKED = 1 << 13, EXTRA_ZIP64 = 1 };
static const uint32_t sign_local = 0x04034b50, sign_central = 0x02014b50, sign_end = 0x06054b50,
                      sign_locator64 = 0x07064b50, sign_end64 = 0x06064b50;

static int refuse_zip(err *e, const char *why) { return err_set(e, ERR_FORMAT, "ZIP: %s", why); }

static cursor cursor_at(span file, uint64_t at)
{
    cursor c = cursor_of(file);
    cursor_take(&c, at);
    return c;
}

/* What the end records say about the central directory. */
typedef struct zip_end {
    uint64_t at; /* where the first end record begins: the directory must lie before it */
    uint64_t disk, first_disk, on_disk, entries, size, offset;
} zip_end;

static bool find_end(span file, uint64_t *at)
{
    if (file.n < END_SIZE) return false;
    uint64_t last = file.n - END_SIZE, first = last > COMMENT_MAX ? last - COMMENT_MAX : 0;
    for (uint64_t i = last + 1; i-- > first;) {
        cursor c = cursor_at(file, i);
        if (cursor_u32(&c) != sign_end) continue;
        cursor_take(&c, END_SIZE - 4 - 2);
        if (cursor_u16(&c) == file.n - i - END_SIZE) { /* the comment ends the file */
            *at = i;
            return true;
        }
    }
    return false;
}

static int read_end(span file, zip_end *end, err *e)
{
    if (!find_end(file, &end->at)) return refuse_zip(e, "no central directory: incomplete download?");
    cursor c = cursor_at(file, end->at + 4);
    end->disk = cursor_u16(&c);
    end->first_disk = cursor_u16(&c);
    end->on_disk = cursor_u16(&c);
    end->entries = cursor_u16(&c);
    end->size = cursor_u32(&c);
    end->offset = cursor_u32(&c);
    c = cursor_at(file, end->at >= LOCATOR64_SIZE ? end->at - LOCATOR64_SIZE : file.n);
    if (cursor_u32(&c) != sign_locator64 || c.bad) return OK;
    uint64_t locator_at = end->at - LOCATOR64_SIZE;
    cursor_u32(&c);
    uint64_t at = cursor_u64(&c);
    if (at > locator_at || locator_at - at < END64_SIZE)
        return refuse_zip(e, "the zip64 end record lies outside the file");
    c = cursor_at(file, at);
    if (cursor_u32(&c) != sign_end64) return refuse_zip(e, "no zip64 end record");
    cursor_take(&c, 8 + 2 + 2);
    end->at = at;
    end->disk = cursor_u32(&c);
    end->first_disk = cursor_u32(&c);
    end->on_disk = cursor_u64(&c);
    end->entries = cursor_u64(&c);
    end->size = cursor_u64(&c);
    end->offset = cursor_u64(&c);
    return OK;
}

/* Replaces size, stored size and offset that say "see zip64" by the fields of the extra block, in this order. */
static int read_zip64(span extra, uint64_t *size, uint64_t *stored, uint64_t *offset, err *e)
{
    cursor c = cursor_of(extra);
    while (cursor_left(&c) >= 4) {
        uint16_t id = cursor_u16(&c), n = cursor_u16(&c);
        span body = cursor_take(&c, n);
        if (c.bad) break;
        if (id != EXTRA_ZIP64) continue;
        cursor in = cursor_of(body);
        if (*size == UINT32_MAX) *size = cursor_u64(&in);
        if (*stored == UINT32_MAX) *stored = cursor_u64(&in);
        if (*offset == UINT32_MAX) *offset = cursor_u64(&in);
        return in.bad ? refuse_zip(e, "a zip64 field is too short") : OK;
    }
    return OK;
}

static bool name_leaves_folder(span name)
{
    if (name.n == 0 || name.p[0] == '/' || memchr(name.p, '\\', name.n) || memchr(name.p, 0, name.n)) return true;
    for (size_t i = 0; i + 1 < name.n; i++)
        if (name.p[i] == '.' && name.p[i + 1] == '.') return true;
    return false;
}

/* Finds the contents after the local header. */
static int read_local(span file, uint64_t limit, zip_entry *z, err *e)
{
    cursor c = cursor_at(file, z->header);
    uint32_t sign = cursor_u32(&c);
    cursor_take(&c, LOCAL_SIZE - 4 - 4);
    uint16_t name_bytes = cursor_u16(&c), extra_bytes = cursor_u16(&c);
    span name = cursor_take(&c, name_bytes);
    cursor_take(&c, extra_bytes);
    if (c.bad || sign != sign_local || !span_eq(name, z->name))
        return refuse_zip(e, "a local header does not fit the directory");
    z->offset = c.at;
    if (z->offset > limit || z->bytes > limit - z->offset) return refuse_zip(e, "an entry lies outside the file");
    return OK;
}

static int read_entry(span file, uint64_t limit, cursor *c, zip_entry *z, err *e)
{
    uint32_t sign = cursor_u32(c);
    cursor_take(c, 2 + 2);
    uint16_t flags = cursor_u16(c), method = cursor_u16(c);
    cursor_take(c, 2 + 2 + 4);
    uint64_t stored = cursor_u32(c), size = cursor_u32(c);
    uint16_t name_bytes = cursor_u16(c), extra_bytes = cursor_u16(c), comment_bytes = cursor_u16(c);
    uint16_t disk = cursor_u16(c);
    cursor_take(c, 2 + 4);
    uint64_t header = cursor_u32(c);
    z->name = cursor_take(c, name_bytes);
    span extra = cursor_take(c, extra_bytes);
    cursor_take(c, comment_bytes);
    if (c->bad || sign != sign_central) return refuse_zip(e, "the central directory is damaged");
    int rc = read_zip64(extra, &size, &stored, &header, e);
    if (rc) return rc;
    if (disk != 0 && disk != UINT16_MAX) return refuse_zip(e, "spread over several disks");
    if (flags & (FLAG_ENCRYPTED | FLAG_STRONG | FLAG_MASKED)) return refuse_zip(e, "an entry is encrypted");
    if (method != 0) return refuse_zip(e, "an entry is compressed; weights are stored as they are");
    if (stored != size) return refuse_zip(e, "an entry that is stored has two sizes");
    if (name_leaves_folder(z->name)) return refuse_zip(e, "an entry's name leaves the folder");
    z->header = header;
    z->bytes = size;
    if (header >= limit) return refuse_zip(e, "an entry lies outside the file");
    return read_local(file, limit, z, e);
}

static int by_header(const void *pa, const void *pb)
{
    const zip_entry *a = pa, *b = pb;
    return a->header < b->header ? -1 : a->header > b->header;
}

int zip_list(zip *z, span file, err *e)
{
    zip_end end = {0};
    *z = (zip){0};
    int rc = read_end(file, &end, e);
    if (rc) return rc;
    if (end.disk || end.first_disk || end.on_disk != end.entries) return refuse_zip(e, "spread over several disks");
    if (end.offset > end.at || end.size > end.at - end.offset)
        return refuse_zip(e, "the central directory lies outside the file");
    if (end.entries > ENTRIES_MAX || end.entries > end.size / CENTRAL_SIZE)
        return refuse_zip(e, "more entries than the directory can hold");
    z->entry = mem_zero(end.entries, sizeof *z->entry);
    if (!z->entry || !map_reserve(&z->names, end.entries)) return err_memory(e, NULL);
    cursor c = cursor_of(span_of(file.p + end.offset, (size_t)end.size));
    for (uint64_t i = 0; i < end.entries; i++)
        if ((rc = read_entry(file, end.offset, &c, &z->entry[i], e))) return rc;
    z->n = (uint32_t)end.entries;
    if (z->n) qsort(z->entry, z->n, sizeof *z->entry, by_header);
    for (uint32_t i = 0; i < z->n; i++) {
        if (i && z->entry[i - 1].offset + z->entry[i - 1].bytes > z->entry[i].header)
            return refuse_zip(e, "two entries overlap");
        if (map_get(&z->names, z->entry[i].name) != MAP_NONE) return refuse_zip(e, "a name appears twice");
        if (!map_put(&z->names, z->entry[i].name, i)) return err_memory(e, NULL);
    }
    return OK;
}

const zip_entry *zip_find(const zip *z, span name)
{
    uint32_t i = map_get(&z->names, name);
    return i == MAP_NONE ? NULL : &z->entry[i];
}

void zip_free(zip *z)
{
    mem_free(z->entry);
    map_free(&z->names);
    *z = (zip){0};
}
