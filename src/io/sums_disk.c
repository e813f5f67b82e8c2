/* sums_disk.c - see sums_disk.h. */
#include "io/sums_disk.h"

#include "base/file_disk.h"
#include "base/hash_tree.h"
#include "base/mem.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/* OK: as it was. */
static int check_sum(const file_disk *d, const file_sum *s, const sums_pace *pace, uint8_t *room)
{
    sha256 h;
    uint8_t digest[SHA256_BYTES];
    sha256_init(&h);
    for (uint64_t done = 0, n; done < s->bytes; done += n) {
        n = s->bytes - done < DISK_READ ? s->bytes - done : DISK_READ;
        if (pace && !pace->go_on(pace->ctx, n)) return ERR_CANCELLED;
        const uint8_t *p = file_disk_read(d, s->offset + done, (size_t)n, room);
        if (!p) return ERR_UNAVAILABLE;
        if (s->kind == SUM_TREE) tree_root(p, (size_t)n, digest);
        else sha256_add(&h, p, (size_t)n);
    }
    if (s->kind == SUM_FLAT) sha256_end(&h, digest);
    return memcmp(digest, s->digest, sizeof digest) == 0 ? OK : ERR_UNAVAILABLE;
}

/* Whether trees say the same: those of a tensor are made together. */
static bool has_trees(const file_sums *s, const file_sum *x)
{
    const uint64_t n = x->bytes < TREE_BYTES ? x->bytes : TREE_BYTES;
    return x->kind == SUM_FLAT && file_sums_find(s, &(file_sum){.offset = x->offset, .bytes = n, .kind = SUM_TREE});
}

static int check_all(const file_disk *d, file_sums *s, int threads, const sums_pace *pace, size_t *wrong, err *e)
{
    atomic_int first = OK;
    atomic_size_t at = SIZE_MAX;
    const int64_t now = contents_clock();
    (void)threads; /* without OpenMP */
#pragma omp parallel num_threads(threads)
    {
        uint8_t *room = mem_map(DISK_ROOM);
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < s->n; i++) {
            int expected = OK;
            if (atomic_load(&first) || has_trees(s, &s->at[i])) continue;
            const int rc = room ? check_sum(d, &s->at[i], pace, room) : ERR_MEMORY;
            if (rc && atomic_compare_exchange_strong(&first, &expected, rc)) atomic_store(&at, i);
        }
        if (room) mem_unmap(room, DISK_ROOM);
    }
    *wrong = atomic_load(&at);
    const int rc = atomic_load(&first);
    for (size_t i = 0; i < s->n && !rc; i++) s->at[i].hashed = now;
    return !rc ? OK : err_set(e, rc, rc == ERR_MEMORY ? "out of memory to hash a file" : "a file was not hashed");
}

int sums_recheck(file_sums *s, const char *path, const file_id *id, int threads, const sums_pace *pace, size_t *wrong,
                 err *e)
{
    file_disk d;
    *wrong = SIZE_MAX;
    if (file_disk_open(&d, path)) return err_set(e, ERR_NOT_FOUND, "%s: %s", path, strerror(errno));
    int rc = file_is(path, id) ? check_all(&d, s, threads, pace, wrong, e) : ERR_NOT_FOUND;
    if (rc == ERR_UNAVAILABLE && !file_is(path, id)) rc = ERR_NOT_FOUND; /* somebody writes to it */
    if (rc == ERR_NOT_FOUND) err_set(e, rc, "%s: was replaced or written to", path);
    file_disk_close(&d);
    return rc;
}
