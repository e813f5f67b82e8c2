/* fuzz_gguf.c - GGUF: key-values, arrays, tensor infos. */
#include "fuzz_ckpt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    use_checkpoint(data, n);
    return 0;
}
