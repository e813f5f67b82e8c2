/* fuzz_page_file.c - heads of files of pages (cache/page_file.h), as they are and with a right digest. */
#include "cache/page_file.h"

#include "base/mem.h"

enum { MOST = 64 };

static void read_head(const uint8_t *data, size_t n)
{
    static const page_shape shapes[] = {{.made_for = {1}, .bytes = {64, 128}},
                                        {.made_for = {1}, .bytes = {64, 128, [GROUP_MAX] = 32}}};
    page_record r[MOST];
    uint32_t count;
    for (int k = 0; k < 2; k++) { /* of a model without slots, and with them */
        if (page_file_read_head(span_of(data, n), n, &shapes[k], r, MOST, &count, &(err){0})) continue;
        for (uint32_t i = 0; i < count && i < MOST; i++)
            page_record_holds(&r[i], data + r[i].offset, page_record_bytes(&shapes[k], r[i].groups));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    read_head(data, n);
    cursor c = cursor_of(span_of(data, n));
    const size_t before = 17 + SHA256_BYTES + 8 * (GROUP_MAX + (n > 16 && data[16] == '2'));
    cursor_take(&c, before);
    const uint64_t records = 68 * (uint64_t)cursor_u32(&c);
    cursor_take(&c, records);
    cursor_take(&c, SHA256_BYTES);
    if (c.bad) return 0;
    uint8_t *own = mem_alloc(n);
    if (!own) return 0;
    memcpy(own, data, n);
    sha256_of(own, before + 4 + records, own + before + 4 + records);
    read_head(own, n);
    mem_free(own);
    return 0;
}
