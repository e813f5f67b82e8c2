/* kernels_avx512.c - the kernel bodies of v_*.h compiled for AVX-512. */
#include "cpu/cpu.h"

#include "cpu/v_attn.h"
#include "cpu/v_dispatch.h"
#include "cpu/v_elementwise.h"
#include "cpu/v_kv.h"
#include "cpu/v_matmul_exp.h"
#include "cpu/v_matmul_heads.h"
#include "cpu/v_norm.h"
#include "cpu/v_probe.h"
#include "cpu/v_rope.h"

const cpu_table cpu_table_avx512 = {
    .isa = "avx512",
    .needs = CPU_AVX2 | CPU_AVX512,
    .op =
        {
#define X(id, reference, body) [OP_##id] = body,
            CPU_KERNEL_LIST(X)
#undef X
        },
    .probe = {probe_read, probe_multiply, probe_multiply_int8},
};
