/* kernels_avxvnni.c - the kernel bodies of v_*.h compiled for AVX2, FMA, F16C and the multiplier of bytes on 256 bits (AVX-VNNI). */
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

const cpu_table cpu_table_avxvnni = {
    .isa = "avxvnni",
    .needs = CPU_AVX2 | CPU_AVXVNNI,
    .op =
        {
#define X(id, reference, body) [OP_##id] = body,
            CPU_KERNEL_LIST(X)
#undef X
        },
    .probe = {probe_read, probe_multiply, probe_multiply_int8},
};
