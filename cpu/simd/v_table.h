/* v_table.h - all bodies over sixteen lanes, and the table of them: the contents of each kernels_<instruction
 * set>.c. */
#pragma once
#include "cpu/cpu.h"

#include "cpu/simd/v_attn.h"
#include "cpu/simd/v_conv.h"
#include "cpu/simd/v_moe.h"
#include "cpu/simd/v_elementwise.h"
#include "cpu/simd/v_fuse.h"
#include "cpu/simd/v_kv.h"
#include "cpu/simd/v_matmul_exp.h"
#include "cpu/simd/v_matmul_heads.h"
#include "cpu/simd/v_norm.h"
#include "cpu/simd/v_probe.h"
#include "cpu/simd/v_recur.h"
#include "cpu/simd/v_rope.h"
#include "cpu/simd/v_scan.h"
#include "cpu/simd/v_wire.h"

#define V_OPS                                                                                                          \
    [OP_NORM] = v_norm, [OP_QUANT] = v_quant, [OP_MATMUL] = v_matmul, [OP_ROPE] = v_rope, [OP_KV_PUT] = v_kv_put,      \
    [OP_ATTN] = v_attn, [OP_ACT] = v_act, [OP_MUL] = v_mul, [OP_ADD] = v_add, [OP_SCALE] = v_scale,                    \
    [OP_SOFTCAP] = v_softcap, [OP_CLAMP] = v_clamp, [OP_ROUTE] = v_route, [OP_MATMUL_EXP] = v_matmul_exp,              \
    [OP_SCATTER] = v_scatter, [OP_MATMUL_HEADS] = v_matmul_heads, [OP_CONV] = v_conv, [OP_RECUR] = v_recur
#if defined(__AVX512BF16__)
#define V_INEXACT true
#else
#define V_INEXACT false
#endif
#define V_FUSED(id, kernel, ...) [FUSE_##id] = kernel,
#define V_TABLE(name, flags)                                                                                           \
    {                                                                                                                  \
        .isa = name, .needs = flags, .inexact = V_INEXACT, .op = {V_OPS}, .fused = {CPU_FUSE_LIST(V_FUSED)},           \
        .probe = {probe_read, probe_multiply, probe_multiply_int8}, .wire = &v_wire, .scan = &v_scan,                  \
        .stream = v_stream, .stream_rows = QSTREAM_ROWS,                                                               \
    }
