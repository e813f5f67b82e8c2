/* v_table.h - all bodies over sixteen lanes, and the table of them: what each kernels_<instruction set>.c is made of. */
#ifndef CPU_V_TABLE_H
#define CPU_V_TABLE_H
#include "cpu/cpu.h"

#include "cpu/simd/v_attn.h"
#include "cpu/simd/v_moe.h"
#include "cpu/simd/v_elementwise.h"
#include "cpu/simd/v_fuse.h"
#include "cpu/simd/v_kv.h"
#include "cpu/simd/v_matmul_exp.h"
#include "cpu/simd/v_matmul_heads.h"
#include "cpu/simd/v_norm.h"
#include "cpu/simd/v_probe.h"
#include "cpu/simd/v_rope.h"

#define V_KERNEL(id, reference, body) [OP_##id] = body,
#if defined(__AVX512BF16__)
#define V_INEXACT true
#else
#define V_INEXACT false
#endif
#define V_FUSED(id, kernel, ...) [FUSE_##id] = kernel,
#define V_TABLE(name, flags)                                                                                           \
    {                                                                                                                  \
        .isa = name, .needs = flags, .inexact = V_INEXACT, .op = {CPU_KERNEL_LIST(V_KERNEL)},                          \
        .fused = {CPU_FUSE_LIST(V_FUSED)}, .probe = {probe_read, probe_multiply, probe_multiply_int8},                 \
    }

#endif
