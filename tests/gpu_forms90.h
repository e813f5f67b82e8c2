/* gpu_forms90.h - forms that only sm_90 has, in the manner of gpu_forms.h: mbarrier step by step, bulk copies,
 * stmatrix, wgmma with the layouts of its descriptors.
 *
 * A block has 128 threads and 32 KiB of shared memory at %r184, filled with the operands' words, so a result tells
 * which bytes an instruction took. Results that are many are folded into two sums with odd factors. */
#pragma once
#include "gpu_forms.h"

#include <stdlib.h>

static inline void form90_begin(form_list *y, const char *name, const char *type)
{
    snprintf(y->f.name, sizeof y->f.name, "%s", name);
    snprintf(y->f.type, sizeof y->f.type, "%s", type);
    y->f.text[0] = 0;
    y->f.n = 0;
    y->f.block = 128;
    form_put(
        y,
        ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry form(.param .u64 in, .param .u64 out)\n{\n");
    form_put(y, ".reg .pred %%p<8>; .reg .b16 %%h<40>; .reg .b32 %%r<200>; .reg .f32 %%f<160>; .reg .b64 %%d<60>;\n");
    form_put(y, ".shared .align 1024 .b8 room[32768]; .shared .align 8 .b8 barrier[64];\n");
    form_put(y, "mov.u32 %%r180, %%ctaid.x; mov.u32 %%r182, %%tid.x; mad.lo.u32 %%r183, %%r180, 128, %%r182;\n");
    form_put(y, "ld.param.u64 %%d35, [in]; ld.param.u64 %%d31, [out]; mad.wide.u32 %%d30, %%r183, 64, %%d35;\n");
    form_put(y, "mad.wide.u32 %%d31, %%r183, 32, %%d31; mad.wide.u32 %%d36, %%r180, 8192, %%d35;\n");
    form_put(y, "mov.u32 %%r184, room; mov.u32 %%r185, barrier; mad.lo.u32 %%r186, %%r182, 64, %%r184;\n");
    for (int i = 1; i <= 8; i++) form_put(y, "ld.global.u64 %%d%d, [%%d30+%d];\n", i, 8 * i - 8);
}

/* Four copies of the words, each in another order, 8 KiB apart. */
static inline void form90_fill(form_list *y)
{
    for (int i = 1; i <= 8; i++) {
        const int word[] = {i, 9 - i, i * 3 % 8 + 1, i * 5 % 8 + 1};
        for (int k = 0; k < 4; k++) form_put(y, "st.shared.u64 [%%r186+%d], %%d%d;\n", 8192 * k + 8 * i - 8, word[k]);
    }
    form_put(y, "fence.proxy.async.shared::cta; bar.sync 0;\n");
}

/* Pairs of small whole numbers, so that no sum is rounded. */
static inline void form90_fill_small(form_list *y, const char *type)
{
    for (int i = 0; i < 64; i++) {
        form_put(y, "cvt.u32.u64 %%r1, %%d%d;\n", i % 8 + 1);
        for (int k = 1; k <= 2; k++)
            form_put(y, "bfe.u32 %%r2, %%r1, %d, 4; sub.s32 %%r2, %%r2, 7; cvt.rn.f32.s32 %%f%d, %%r2;\n",
                     (k == 1 ? 3 * (i / 8) : 5 * (i / 8) + 4) % 25, k);
        form_put(y, "cvt.rn.%sx2.f32 %%r4, %%f1, %%f2; st.shared.u32 [%%r186+%d], %%r4;\n", type,
                 4 * (i % 16) + 8192 * (i / 16));
    }
    form_put(y, "fence.proxy.async.shared::cta; bar.sync 0;\n");
}

/* A descriptor of a matrix: where it begins, its two strides, its swizzle. */
typedef struct form90_matrix {
    int at, leading, stride, swizzle;
} form90_matrix;

static inline void form90_descriptor(form_list *y, int d, form90_matrix m)
{
    const uint64_t fixed = (uint64_t)m.leading >> 4 << 16 | (uint64_t)m.stride >> 4 << 32 | (uint64_t)m.swizzle << 62;
    form_put(y, "add.u32 %%r187, %%r184, %d; shr.u32 %%r187, %%r187, 4; and.b32 %%r187, %%r187, 16383;\n", m.at);
    form_put(y, "cvt.u64.u32 %%d%d, %%r187; or.b64 %%d%d, %%d%d, %lld;\n", d, d, d, (long long)fixed);
}

typedef struct form90_product {
    const char *name, *types, *more; /* more: the flags of floats */
    int n;
    const char *numbers; /* f16 or bf16; NULL: integers */
    form90_matrix a, b;
    int begin;    /* what the sums begin with */
    bool ignored; /* which they are not added to */
} form90_product;

static inline void form90_multiply(form_list *y, form90_product p)
{
    const char c = p.numbers ? 'f' : 'r';
    const int n = p.n / 2;
    form90_begin(y, p.name, n > 4 || !p.numbers ? "x" : "f32");
    if (p.numbers) form90_fill_small(y, p.numbers);
    else form90_fill(y);
    form90_descriptor(y, 20, p.a);
    form90_descriptor(y, 21, p.b);
    for (int i = 0; i < n; i++) form_put(y, "mov.b32 %%%c%d, %d;\n", c, 20 + i, p.begin);
    form_put(y, "setp.%s.u32 %%p1, %%r184, -1; wgmma.fence.sync.aligned;\n", p.ignored ? "eq" : "ne");
    form_put(y, "wgmma.mma_async.sync.aligned.m64n%dk%d.%s {", p.n, p.numbers ? 16 : 32, p.types);
    for (int i = 0; i < n; i++) form_put(y, "%s%%%c%d", i ? ", " : "", c, 20 + i);
    form_put(y, "}, %%d20, %%d21, %%p1%s;\nwgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n",
             p.more);
    if (n <= 4) {
        form_results(y, c, 20, n);
        return;
    }
    form_put(y, "mov.u64 %%d40, 0; mov.u64 %%d41, 0;\n");
    for (int i = 0; i < n; i++) {
        form_put(y, "mov.b32 %%r190, %%%c%d; cvt.u64.u32 %%d42, %%r190;\n", c, 20 + i);
        form_put(y, "mad.lo.u64 %%d4%d, %%d42, %d, %%d4%d;\n", i & 1, 2 * i + 1, i & 1);
    }
    form_results(y, 'd', 40, 2);
}

static const struct {
    const char *name;
    int leading, stride, swizzle, width;
} form90_layouts[] = {
    {"none", 128, 256, 0, 0}, {"128", 16, 1024, 1, 128}, {"64", 16, 512, 2, 64}, {"32", 16, 256, 3, 32}};

static inline form90_matrix form90_at(int layout, int at)
{
    return (form90_matrix){at, form90_layouts[layout].leading, form90_layouts[layout].stride,
                           form90_layouts[layout].swizzle};
}

static inline void forms90_of_integers(form_list *y)
{
    static const char *const types[] = {"s8.s8", "u8.s8", "s8.u8", "u8.u8"};
    static const int columns[] = {16, 64, 128, 256}, strides[][2] = {{128, 512}, {1024, 128}, {2048, 128}, {256, 128}};
    char name[96], of[32];
    for (int m = 0; m < 4; m++) {
        const char *layout = form90_layouts[m].name;
        form90_product p = {.name = name, .types = of, .more = "", .n = 8, .begin = 5};
        p.a = form90_at(m, 0), p.b = form90_at(m, 16384);
        for (int t = 0; t < 4; t++) {
            snprintf(name, sizeof name, "wgmma.m64n8k32.%s.swizzle.%s", types[t], layout);
            snprintf(of, sizeof of, "s32.%s", types[t]);
            form90_multiply(y, p);
        }
        snprintf(of, sizeof of, "s32.s8.s8");
        for (int at = 32; at < form90_layouts[m].width; at += 32) {
            snprintf(name, sizeof name, "wgmma.m64n8k32.s8.s8.swizzle.%s.at.%d", layout, at);
            p.a = form90_at(m, at), p.b = form90_at(m, 16384 + at);
            form90_multiply(y, p);
        }
        for (int i = 0; i < 4; i++) {
            snprintf(name, sizeof name, "wgmma.m64n%dk32.s8.s8.swizzle.%s.folded", columns[i], layout);
            p.n = columns[i];
            p.a = p.b = form90_at(m, 0);
            form90_multiply(y, p);
        }
    }
    form90_product p = {.name = name, .types = "s32.s8.s8", .more = "", .n = 8};
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "wgmma.m64n8k32.s8.s8.none.%d.%d", strides[i][0], strides[i][1]);
        p.a = (form90_matrix){0, strides[i][0], strides[i][1], 0};
        p.b = (form90_matrix){8192, strides[i][0], strides[i][1], 0};
        form90_multiply(y, p);
    }
    p.a = form90_at(1, 0), p.b = form90_at(1, 16384), p.begin = 5;
    p.name = "wgmma.m64n8k32.s8.s8.satfinite", p.types = "satfinite.s32.s8.s8";
    form90_multiply(y, p);
    p.name = "wgmma.m64n8k32.s8.s8.D.is.zero", p.types = "s32.s8.s8", p.ignored = true;
    form90_multiply(y, p);
}

static inline void forms90_of_floats(form_list *y)
{
    char name[96], types[32];
    const int two = 0x40000000; /* as a float */
    for (int t = 0; t < 2; t++) {
        const char *number = t ? "f16" : "bf16";
        form90_product p = {.name = name, .types = types, .more = ", 1, 1, 0, 0", .numbers = number, .begin = two};
        snprintf(types, sizeof types, "f32.%s.%s", number, number);
        for (int m = 0; m < 4; m++) {
            p.a = form90_at(m, 0), p.b = form90_at(m, 16384);
            for (p.n = 8; p.n <= 64; p.n += 56) {
                snprintf(name, sizeof name, "wgmma.m64n%dk16.%s.swizzle.%s%s", p.n, number, form90_layouts[m].name,
                         p.n > 8 ? ".folded" : "");
                form90_multiply(y, p);
            }
        }
        p.a = form90_at(1, 0), p.b = form90_at(1, 16384);
        snprintf(name, sizeof name, "wgmma.m64n64k16.%s.B.transposed.folded", number);
        p.n = 64, p.more = ", 1, 1, 0, 1";
        form90_multiply(y, p);
        snprintf(name, sizeof name, "wgmma.m64n8k16.%s.negated", number);
        p.n = 8, p.more = ", -1, 1, 0, 0";
        form90_multiply(y, p);
    }
    form90_begin(y, "wgmma.two.of.k", "x");
    form90_fill(y);
    form90_descriptor(y, 20, form90_at(1, 0));
    form90_descriptor(y, 21, form90_at(1, 16384));
    form_put(y, "setp.eq.u32 %%p1, %%r184, -1; setp.ne.u32 %%p2, %%r184, -1; add.s64 %%d22, %%d20, 2; add.s64 %%d23, "
                "%%d21, 2;\n");
    form_put(y, "mov.b32 %%r20, 0; mov.b32 %%r21, 0; mov.b32 %%r22, 0; mov.b32 %%r23, 0; wgmma.fence.sync.aligned;\n");
    for (int i = 0; i < 2; i++)
        form_put(y,
                 "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%%r20, %%r21, %%r22, %%r23}, %%d%d, %%d%d, %%p%d;\n",
                 20 + 2 * i, 21 + 2 * i, 1 + i);
    form_put(y, "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n");
    form_results(y, 'r', 20, 4);
}

/* One thread's steps at a barrier: t0, t1 ask for a parity (a bit of the result each), a arrives, x arrives and expects
 * bytes, e expects, c completes bytes, p asks what was missing. */
static inline void form90_steps(form_list *y, const char *name, int count, const char *steps)
{
    char list[160], *save = NULL;
    int bit = 0;
    form90_begin(y, name, "x");
    form90_fill(y);
    form_put(y, "mov.u32 %%r20, 0; setp.ne.u32 %%p1, %%r182, 0; @%%p1 bra OVER;\n");
    form_put(y, "mbarrier.init.shared::cta.b64 [%%r185], %d;\n", count);
    snprintf(list, sizeof list, "%s", steps);
    for (char *s = strtok_r(list, " ", &save); s; s = strtok_r(NULL, " ", &save)) {
        const int by = atoi(s + 1);
        if (*s == 't')
            form_put(y,
                     "mbarrier.test_wait.parity.shared::cta.b64 %%p2, [%%r185], %d; selp.u32 %%r21, %d, 0, %%p2;\n"
                     "or.b32 %%r20, %%r20, %%r21;\n",
                     by, 1 << bit++);
        else if (*s == 'a' && by) form_put(y, "mbarrier.arrive.shared::cta.b64 %%d22, [%%r185], %d;\n", by);
        else if (*s == 'a') form_put(y, "mbarrier.arrive.shared::cta.b64 %%d22, [%%r185];\n");
        else if (*s == 'x') form_put(y, "mbarrier.arrive.expect_tx.shared::cta.b64 %%d22, [%%r185], %d;\n", by);
        else if (*s == 'e') form_put(y, "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%%r185], %d;\n", by);
        else if (*s == 'c') form_put(y, "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%%r185], %d;\n", by);
        else
            form_put(
                y, "mbarrier.pending_count.b64 %%r22, %%d22; shl.b32 %%r22, %%r22, 16; or.b32 %%r20, %%r20, %%r22;\n");
    }
    form_put(y, "OVER: bar.sync 0;\n");
    form_results(y, 'r', 20, 1);
}

static inline void form90_bulk(form_list *y, const char *name, int bytes, int copies)
{
    form90_begin(y, name, "x");
    form90_fill(y);
    form_put(y, "setp.ne.u32 %%p1, %%r182, 0; @%%p1 bra NEXT; mbarrier.init.shared::cta.b64 [%%r185], 1;\n");
    form_put(y, "fence.mbarrier_init.release.cluster; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%r185], %d;\n",
             bytes * copies);
    for (int i = 0; i < copies; i++)
        form_put(y,
                 "add.u32 %%r20, %%r184, %d; add.u64 %%d23, %%d36, %d;\n"
                 "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%%r20], [%%d23], %d, [%%r185];\n",
                 copies > 1 ? 4096 * i : 128, 2048 * i, bytes);
    form_put(y,
             "NEXT: bar.sync 0;\nWAIT: mbarrier.try_wait.parity.shared::cta.b64 %%p2, [%%r185], 0; @!%%p2 bra WAIT;\n");
    form_put(y, "ld.shared.u64 %%d20, [%%r186]; ld.shared.u64 %%d21, [%%r186+%d];\n", copies > 1 ? 48 : 56);
    form_results(y, 'd', 20, 2);
}

static inline void forms90_of_copies(form_list *y)
{
    char name[64];
    for (int i = 0; i < 6; i++) {
        const int n = 1 << i / 2;
        snprintf(name, sizeof name, "stmatrix.x%d%s", n, i & 1 ? ".trans" : "");
        form90_begin(y, name, "x");
        form90_fill(y);
        form_put(y, "mov.b64 {%%r1, %%r2}, %%d1; mov.b64 {%%r3, %%r4}, %%d2; and.b32 %%r10, %%r182, 31; shr.u32 %%r11, "
                    "%%r182, 5;\n");
        form_put(
            y, "mad.lo.u32 %%r12, %%r11, 1024, %%r184; xor.b32 %%r13, %%r10, 3; mad.lo.u32 %%r14, %%r13, 16, %%r12;\n");
        form_put(y, "stmatrix.sync.aligned.m8n8.x%d%s.shared.b16 [%%r14], %s; bar.sync 0;\n", n, i & 1 ? ".trans" : "",
                 form_group('r', 1, n));
        form_put(y, "mad.lo.u32 %%r16, %%r10, 16, %%r12; ld.shared.v2.u64 {%%d20, %%d21}, [%%r16];\n");
        form_results(y, 'd', 20, 2);
    }
    form90_steps(y, "mbarrier.one", 1, "t0 t1 a t0 t1 a t0 t1");
    form90_steps(y, "mbarrier.two", 2, "t0 t1 a t0 t1 a t0 t1 a t0 t1 a t0 t1");
    form90_steps(y, "mbarrier.count", 3, "a2 t0 a t0 t1");
    form90_steps(y, "mbarrier.pending", 5, "a a p");
    form90_steps(y, "mbarrier.tx", 1, "x64 t0 t1 c32 t0 c32 t0 t1");
    form90_steps(y, "mbarrier.tx.first", 1, "e16 c16 t0 a t0 e16 a t0 t1 c16 t0 t1");
    form90_steps(y, "mbarrier.early", 1, "t1 t0 a t1 t0");
    for (int i = 0; i < 4; i++) {
        const int n = (int[]){16, 48, 512, 4096}[i];
        snprintf(name, sizeof name, "cp.async.bulk.to.shared.%d", n);
        form90_bulk(y, name, n, 1);
    }
    form90_bulk(y, "cp.async.bulk.two.on.one", 512, 2);
    form90_begin(y, "cp.async.bulk.to.global", "x");
    form90_fill(y);
    form_put(y, "setp.ne.u32 %%p1, %%r182, 0; @%%p1 bra NEXT; cp.async.bulk.global.shared::cta.bulk_group [%%d31], "
                "[%%r184], 4096;\n");
    form_put(y, "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\nNEXT: bar.sync 0;\n");
    y->f.n = 4;
    form_end(y);
}

/* A form of the words, which are %d1 ... %d8. */
static inline void form90_plain(form_list *y, const char *name, const char *type, const char *body, const char *a,
                                const char *b)
{
    form90_begin(y, name, type);
    form_put(y, "cvt.u16.u64 %%h1, %%d1; cvt.u16.u64 %%h2, %%d2; cvt.u32.u64 %%r1, %%d1; cvt.u32.u64 %%r2, %%d2; %s\n",
             body);
    form_result(y, a);
    if (b) form_result(y, b);
    form_end(y);
}

static inline void forms90_of_halves(form_list *y)
{
    static const char *const types[] = {"s32", "u32", "s16", "u16"};
    char name[64], body[96];
    form90_plain(y, "elect.sync", "x", "elect.sync %r20|%p1, -1;", "%p1", "%r20");
    form90_plain(y, "griddepcontrol", "x", "griddepcontrol.launch_dependents; griddepcontrol.wait; mov.u32 %r20, 7;",
                 "%r20", NULL);
    for (int i = 0; i < 3; i++) {
        const char *op = (const char *[]){"add", "sub", "mul"}[i];
        snprintf(name, sizeof name, "%s.rn.bf16", op), snprintf(body, sizeof body, "%s %%h3, %%h1, %%h2;", name);
        form90_plain(y, name, "bf16", body, "%h3", NULL);
        snprintf(name, sizeof name, "%s.rn.bf16x2", op), snprintf(body, sizeof body, "%s %%r3, %%r1, %%r2;", name);
        form90_plain(y, name, "bf16x2", body, "%r3", NULL);
    }
    form90_plain(y, "cvt.f32.bf16", "f32", "cvt.f32.bf16 %f1, %h1;", "%f1", NULL);
    form90_plain(y, "cvt.rni.s32.bf16", "x", "cvt.rni.s32.bf16 %r3, %h1;", "%r3", NULL);
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "cvt.rn.bf16.%s", types[i]);
        snprintf(body, sizeof body, "%s %%h3, %%%s;", name, i < 2 ? "r1" : "h1");
        form90_plain(y, name, "bf16", body, "%h3", NULL);
    }
}

static inline void forms_of_hopper(form_fn *fn, void *user)
{
    static form_list y;
    y.fn = fn;
    y.user = user;
    forms90_of_integers(&y);
    forms90_of_floats(&y);
    forms90_of_copies(&y);
    forms90_of_halves(&y);
}
