/* cuda_unpack.c - see cuda_unpack.h. */
#include "cuda/cuda_unpack.h"

#include "base/mem.h"

#include <lzma.h>

/* Of an image, of its index, of decoding. */
enum { BYTES_MOST = 256 << 20, INDEX_MOST = 1 << 20, MEMORY_MOST = 64 << 20 };

/* How many bytes a file of xz unpacks to: its index says it, whose size stands in the last 12 bytes. 0: it is no such
 * file. */
static uint64_t unpacked_bytes(span packed)
{
    lzma_stream_flags last;
    lzma_index *index = NULL;
    uint64_t most = INDEX_MOST, bytes = 0;
    if (packed.n < 2 * LZMA_STREAM_HEADER_SIZE) return 0;
    const size_t end = packed.n - LZMA_STREAM_HEADER_SIZE;
    if (lzma_stream_footer_decode(&last, packed.p + end) != LZMA_OK || last.backward_size > end) return 0;
    size_t at = end - (size_t)last.backward_size;
    if (lzma_index_buffer_decode(&index, &most, NULL, packed.p, &at, end) == LZMA_OK)
        bytes = lzma_index_uncompressed_size(index);
    lzma_index_end(index, NULL);
    return bytes;
}

int cuda_unpack(span packed, char **out, err *e)
{
    const uint64_t bytes = unpacked_bytes(packed);
    uint64_t most = MEMORY_MOST;
    size_t from = 0, to = 0;
    const bool sized = bytes && bytes <= BYTES_MOST;
    *out = NULL;
    char *image = sized ? mem_array(bytes + 1, 1) : NULL;
    if (sized && !image) return err_memory(e, "kernels for the device");
    if (!sized || lzma_stream_buffer_decode(&most, 0, NULL, packed.p, &from, packed.n, (uint8_t *)image, &to, bytes) ||
        to != bytes) {
        mem_free(image);
        return err_set(e, ERR_FORMAT, "kernels in this executable are damaged: build it again");
    }
    image[bytes] = 0;
    *out = image;
    return OK;
}
