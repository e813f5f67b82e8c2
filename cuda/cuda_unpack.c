/* cuda_unpack.c - see cuda_unpack.h. */
#include "cuda/cuda_unpack.h"

#include "base/mem.h"

#include <zlib.h>

int cuda_unpack(span packed, char **out, err *e)
{
    cursor c = cursor_of(packed);
    cursor_take(&c, packed.n < 4 ? 0 : packed.n - 4);
    const uint32_t bytes = cursor_u32(&c); /* gzip's last word: how long the contents are */
    char *to = mem_array(bytes + 1ull, 1);
    *out = NULL;
    if (!to) return err_memory(e, "kernels for the device");
    z_stream z = {
        .next_in = (Bytef *)packed.p, .avail_in = (uInt)packed.n, .next_out = (Bytef *)to, .avail_out = bytes};
    const bool opened = inflateInit2(&z, 16 + MAX_WBITS) == Z_OK; /* 16: gzip's own head and checksum */
    const bool whole = opened && inflate(&z, Z_FINISH) == Z_STREAM_END && z.total_out == bytes;
    if (opened) inflateEnd(&z);
    if (!whole) {
        mem_free(to);
        return err_set(e, ERR_FORMAT, "kernels in this executable are damaged: build it again");
    }
    to[bytes] = 0;
    *out = to;
    return OK;
}
