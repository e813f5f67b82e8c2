/* fuzz_llama2c.c - llama2.c: header arithmetic, int8 groups. */
#include "fuzz_ckpt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    use_checkpoint(data, n);
    return 0;
}
