/* fuzz_contents_cache.c - remembered digests of a file, behind a right head: as they are, and with a right digest of
 * their own. What is read is written and read again as it was. */
#include "io/contents_cache.h"

#include "base/mem.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = 21 + 5 * 8 };
static const file_id id = {.device = 1, .inode = 2, .bytes = 3, .modified = 4, .changed = 5};
static char dir[] = "/tmp/inferflow-fuzz-XXXXXX", *path;
static uint8_t head[HEAD];

static void promise(bool kept)
{
    if (!kept) abort();
}

static void end(void)
{
    remove(path);
    remove(dir);
    mem_free(path);
}

/* The name and the head of such a file are those of an empty one. */
static void begin(void)
{
    file_sums none = {0};
    glob_t found;
    char names[sizeof dir + 8];
    if (path) return;
    promise(mkdtemp(dir) && !contents_cache_write(&none, dir, &id, &(err){0}));
    snprintf(names, sizeof names, "%s/*.sums", dir);
    promise(!glob(names, 0, NULL, &found) && found.gl_pathc == 1);
    path = mem_str(found.gl_pathv[0]);
    globfree(&found);
    FILE *f = fopen(path, "re");
    promise(path && f && fread(head, 1, HEAD, f) == HEAD && !atexit(end));
    fclose(f);
}

static void read_file(const uint8_t *p, size_t n)
{
    file_sums s, back;
    err e = {0};
    FILE *f = fopen(path, "we");
    promise(f && fwrite(p, 1, n, f) == n && !fclose(f));
    promise(!contents_cache_read(&s, dir, &id, &e));
    promise(!contents_cache_write(&s, dir, &id, &e) && !contents_cache_read(&back, dir, &id, &e));
    promise(back.n == s.n);
    for (size_t i = 0; i < s.n; i++) {
        const file_sum *a = &s.at[i], *b = file_sums_find(&back, a);
        promise(b && b->hashed == a->hashed && !memcmp(a->digest, b->digest, SHA256_BYTES));
    }
    file_sums_free(&s);
    file_sums_free(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    begin();
    uint8_t *all = mem_alloc(HEAD + n + SHA256_BYTES);
    promise(all != NULL);
    memcpy(all, head, HEAD);
    memcpy(all + HEAD, data, n);
    read_file(all, HEAD + n);
    sha256_of(all, HEAD + n, all + HEAD + n);
    read_file(all, HEAD + n + SHA256_BYTES);
    mem_free(all);
    return 0;
}
