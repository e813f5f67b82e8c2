/* fuzz_torch_file.c - files of torch.save: ZIP or legacy container, pickle, strides. */
#include "fuzz_ckpt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    use_checkpoint(data, n);
    return 0;
}
