/* gpu_forms.h - forms of PTX instructions: for each a kernel in which every thread reads eight words of 64 bits, does
 * the instruction, and writes up to four.
 *
 * A thread has its words at %d30 and its results at %d31. Registers %h, %r, %f, %d, %g hold 16, 32 bits, a float, 64
 * bits, a double. A form of registers alone takes operand n from word n; a form of a whole warp has the words as %d1
 * ... %d8 and their halves as %r1 ... %r16. */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { FORM_TEXT = 48 << 10, FORM_THREADS = 1024, FORM_WORDS = 8, FORM_RESULTS = 4 };

typedef struct form {
    char name[96];
    char type[8]; /* of the results: f32, f64, f16, bf16, f16x2, bf16x2: any NaN equals any; else x */
    int n, block; /* results of a thread, threads of a block */
    char text[FORM_TEXT];
} form;

/* Called for each form in turn. */
typedef void form_fn(const form *f, void *user);

typedef struct form_list {
    form_fn *fn;
    void *user;
    form f;
} form_list;

static inline __attribute__((format(printf, 2, 3))) void form_put(form_list *y, const char *format, ...)
{
    const size_t at = strlen(y->f.text);
    va_list args;
    va_start(args, format);
    vsnprintf(y->f.text + at, FORM_TEXT - at, format, args);
    va_end(args);
}

static inline void form_begin(form_list *y, const char *name, const char *type, const char *shared)
{
    snprintf(y->f.name, sizeof y->f.name, "%s", name);
    snprintf(y->f.type, sizeof y->f.type, "%s", type);
    y->f.text[0] = 0;
    y->f.n = 0;
    y->f.block = 32;
    form_put(
        y, ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry form(.param .u64 in, .param .u64 out)\n{\n");
    form_put(y, ".reg .pred %%p<8>; .reg .b16 %%h<40>; .reg .b32 %%r<90>; .reg .f32 %%f<40>; .reg .b64 %%d<40>;\n");
    form_put(y, ".reg .f64 %%g<8>; %s\n", shared);
    form_put(y, "mov.u32 %%r80, %%ctaid.x; mov.u32 %%r81, %%ntid.x; mov.u32 %%r82, %%tid.x;\n");
    form_put(y, "mad.lo.u32 %%r83, %%r80, %%r81, %%r82; ld.param.u64 %%d30, [in]; ld.param.u64 %%d31, [out];\n");
    form_put(y, "mad.wide.u32 %%d30, %%r83, 64, %%d30; mad.wide.u32 %%d31, %%r83, 32, %%d31;\n");
}

/* Stores a register as the next result. */
static inline void form_result(form_list *y, const char *reg)
{
    const char c = reg[1];
    if (c == 'p') form_put(y, "selp.u64 %%d39, 1, 0, %s;\n", reg);
    else if (c == 'f') form_put(y, "mov.b32 %%r79, %s; cvt.u64.u32 %%d39, %%r79;\n", reg);
    else if (c == 'g') form_put(y, "mov.b64 %%d39, %s;\n", reg);
    else if (c == 'd') form_put(y, "mov.u64 %%d39, %s;\n", reg);
    else form_put(y, "cvt.u64.u%s %%d39, %s;\n", c == 'h' ? "16" : "32", reg);
    form_put(y, "st.global.u64 [%%d31+%d], %%d39;\n", 8 * y->f.n++);
}

static inline void form_end(form_list *y)
{
    form_put(y, "ret;\n}\n");
    y->fn(&y->f, y->user);
}

static inline char form_letter(const char *type)
{
    if (!strcmp(type, "pred")) return 'p';
    if (!strcmp(type, "f32")) return 'f';
    if (!strcmp(type, "f64")) return 'g';
    if (strstr(type, "x2")) return 'r';
    return strstr(type, "64") ? 'd' : strstr(type, "32") ? 'r' : 'h';
}

/* A form of registers alone: op result, sources; "a b" are their types. before stands in front, after behind. */
static inline void form_plain(form_list *y, const char *op, const char *result, const char *sources, const char *before,
                              const char *after)
{
    static const char *const floats[] = {"f32", "f64", "f16", "bf16", "f16x2", "bf16x2"};
    char name[64], types[64], list[64] = "", reg[24], *save = NULL;
    const char *type = "x";
    int n = 0;
    for (size_t i = 0; i < 6; i++)
        if (!strcmp(result, floats[i])) type = floats[i];
    snprintf(name, sizeof name, "%s", op);
    for (const char *p = after; *p; p++)
        if (*p != ' ') strncat(name, (char[]){*p, 0}, 2);
    form_begin(y, name, type, "");
    snprintf(types, sizeof types, "%s", sources);
    for (char *t = strtok_r(types, " ", &save); t; t = strtok_r(NULL, " ", &save), n++) {
        const char c = form_letter(t);
        const char *as = c == 'h' ? "u16" : c == 'r' ? "u32" : c == 'f' ? "f32" : c == 'd' ? "u64" : "f64";
        form_put(y, "ld.global.%s %%%c%d, [%%d30+%d];\n", as, c, n + 1, 8 * n);
        snprintf(reg, sizeof reg, ", %%%c%d", c, n + 1);
        strcat(list, reg);
    }
    snprintf(reg, sizeof reg, "%%%c0", form_letter(result));
    form_put(y, "%s%s %s%s%s;\n", before, op, reg, list, after);
    form_result(y, reg);
    form_end(y);
}

/* "A.B" of every A and B that two lists of words name, with the last word as type of everything. */
static inline void form_same(form_list *y, const char *ops, const char *types, int n, const char *before)
{
    char op[96], sources[64], a[96], b[96], *save_a = NULL, *save_b = NULL;
    snprintf(a, sizeof a, "%s", ops);
    for (char *o = strtok_r(a, " ", &save_a); o; o = strtok_r(NULL, " ", &save_a)) {
        snprintf(b, sizeof b, "%s", types);
        for (char *t = strtok_r(b, " ", &save_b); t; t = strtok_r(NULL, " ", &save_b)) {
            snprintf(op, sizeof op, "%s.%s", o, t);
            snprintf(sources, sizeof sources, "%s %s %s", t, n > 1 ? t : "", n > 2 ? t : "");
            form_plain(y, op, t, sources, before, "");
        }
    }
}

static inline void form_compare(form_list *y, const char *how, const char *type)
{
    char op[64], sources[32], list[128], *save = NULL;
    snprintf(list, sizeof list, "%s", how);
    for (char *c = strtok_r(list, " ", &save); c; c = strtok_r(NULL, " ", &save)) {
        snprintf(op, sizeof op, "setp.%s.%s", c, type);
        snprintf(sources, sizeof sources, "%s %s", type, type);
        form_plain(y, op, "pred", sources, "", "");
    }
}

static inline void forms_of_integers(form_list *y)
{
    for (int w = 16; w <= 64; w *= 2) {
        char s[8], u[8], b[8], both[16], op[32], before[96], sources[32];
        const char r = w == 16 ? 'h' : w == 32 ? 'r' : 'd';
        snprintf(s, 8, "s%d", w), snprintf(u, 8, "u%d", w), snprintf(b, 8, "b%d", w),
            snprintf(both, 16, "s%d u%d", w, w);
        form_same(y, "add sub mul.lo mul.hi min max", both, 2, "");
        form_same(y, "mad.lo", both, 3, "");
        snprintf(before, sizeof before, "or.%s %%%c2, %%%c2, 1; and.%s %%%c1, %%%c1, %llu;\n", b, r, r, b, r, r,
                 (1ull << (w - 1)) - 1);
        form_same(y, "div rem", s, 2, before);
        snprintf(before, sizeof before, "or.%s %%%c2, %%%c2, 1;\n", b, r, r);
        form_same(y, "div rem", u, 2, before);
        snprintf(before, sizeof before, "max.%s %%%c1, %%%c1, -%llu;\n", s, r, r, (1ull << (w - 1)) - 1);
        form_same(y, "abs", s, 1, before);
        form_same(y, "neg", s, 1, "");
        form_same(y, "and or xor", b, 2, "");
        form_same(y, "not", b, 1, "");
        for (int i = 0; i < 3; i++) {
            const char *t = (const char *[]){b, s, u}[i];
            snprintf(op, sizeof op, "%s.%s", i ? "shr" : "shl", t);
            snprintf(sources, sizeof sources, "%s u32", t);
            form_plain(y, op, t, sources, "", "");
        }
        snprintf(op, sizeof op, "selp.%s", b);
        snprintf(sources, sizeof sources, "%s %s", b, b);
        form_plain(y, op, b, sources,
                   "ld.global.u32 %r70, [%d30+16]; and.b32 %r70, %r70, 1; setp.eq.u32 %p1, %r70, 1;\n", ", %p1");
        form_compare(y, "eq ne lt le gt ge", s);
        form_compare(y, "eq ne lt le gt ge", u);
    }
}

static inline void forms_of_bits(form_list *y)
{
    static const char *const wide[][2] = {{"s16", "s32"}, {"u16", "u32"}, {"s32", "s64"}, {"u32", "u64"}};
    static const char *const modes[] = {"", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"};
    static const int tables[] = {0x96, 0xe8, 0xca, 0x6a, 0x80, 0xea, 0x1b, 0xd8};
    static const char *const types[] = {"u32", "s32", "u64", "s64"};
    char op[64], sources[64];
    for (int i = 0; i < 4; i++) {
        snprintf(op, sizeof op, "mul.wide.%s", wide[i][0]), snprintf(sources, 64, "%s %s", wide[i][0], wide[i][0]);
        form_plain(y, op, wide[i][1], sources, "", "");
        snprintf(op, sizeof op, "mad.wide.%s", wide[i][0]);
        snprintf(sources, 64, "%s %s %s", wide[i][0], wide[i][0], wide[i][1]);
        form_plain(y, op, wide[i][1], sources, "", "");
    }
    form_plain(y, "popc.b32", "u32", "b32", "", ""), form_plain(y, "popc.b64", "u32", "b64", "", "");
    form_plain(y, "clz.b32", "u32", "b32", "", ""), form_plain(y, "clz.b64", "u32", "b64", "", "");
    form_plain(y, "brev.b32", "b32", "b32", "", ""), form_plain(y, "brev.b64", "b64", "b64", "", "");
    for (int i = 0; i < 4; i++) {
        snprintf(op, sizeof op, "bfind.%s", types[i]);
        form_plain(y, op, "u32", types[i], "", "");
        snprintf(op, sizeof op, "bfind.shiftamt.%s", types[i]);
        form_plain(y, op, "u32", types[i], "", "");
        snprintf(op, sizeof op, "bfe.%s", types[i]), snprintf(sources, 64, "%s u32 u32", types[i]);
        form_plain(y, op, types[i], sources, "and.b32 %r2, %r2, 127; and.b32 %r3, %r3, 127;\n", "");
    }
    form_plain(y, "bfi.b32", "b32", "b32 b32 u32 u32", "and.b32 %r3, %r3, 127; and.b32 %r4, %r4, 127;\n", "");
    form_plain(y, "bfi.b64", "b64", "b64 b64 u32 u32", "and.b32 %r3, %r3, 127; and.b32 %r4, %r4, 127;\n", "");
    for (int i = 0; i < 7; i++) {
        snprintf(op, sizeof op, "prmt.b32%s", modes[i]);
        form_plain(y, op, "b32", "b32 b32 b32", "", "");
    }
    for (int i = 0; i < 8; i++) {
        snprintf(sources, sizeof sources, ", %d", tables[i]);
        form_plain(y, "lop3.b32", "b32", "b32 b32 b32", "", sources);
    }
    form_same(y, "shf.l.wrap shf.r.wrap shf.l.clamp shf.r.clamp", "b32", 3, "");
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++) {
            const char *a = i & 2 ? "u32" : "s32", *b = i & 1 ? "u32" : "s32", *d = i == 3 ? "u32" : "s32";
            snprintf(op, sizeof op, "%s.%s.%s", (const char *[]){"dp4a", "dp2a.lo", "dp2a.hi"}[k], a, b);
            snprintf(sources, sizeof sources, "%s %s %s", a, b, d);
            form_plain(y, op, d, sources, "", "");
        }
    form_same(y, "sad", "s32 u32", 3, ""), form_same(y, "mul24.lo", "s32", 2, ""), form_same(y, "add.cc", "u32", 2, "");
    form_plain(y, "slct.b32.s32", "b32", "b32 b32 s32", "", "");
    form_plain(y, "slct.f32.f32", "f32", "f32 f32 f32", "", "");
}

static inline void forms_of_floats(form_list *y)
{
    static const char *const classes[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
    char op[64];
    form_same(y, "add.rn add.rz sub.rn sub.rz mul.rn mul.rz div.rn min max min.NaN max.NaN copysign", "f32", 2, "");
    form_same(y, "fma.rn fma.rz", "f32", 3, ""), form_same(y, "rcp.rn sqrt.rn abs neg", "f32", 1, "");
    form_compare(y, "eq ne lt le gt ge equ neu ltu leu gtu geu num nan", "f32");
    for (int i = 0; i < 6; i++) {
        snprintf(op, sizeof op, "testp.%s.f32", classes[i]);
        form_plain(y, op, "pred", "f32", "", "");
    }
    form_same(y, "add.rn sub.rn mul.rn div.rn", "f64", 2, ""), form_same(y, "fma.rn", "f64", 3, "");
    form_same(y, "add.rn sub.rn mul.rn min max", "f16 f16x2", 2, ""), form_same(y, "neg abs", "f16 f16x2", 1, "");
    form_same(y, "fma.rn", "f16 f16x2 bf16 bf16x2", 3, ""), form_same(y, "min max", "bf16 bf16x2", 2, "");
}

static inline void form_cvt(form_list *y, const char *how, const char *to, const char *from)
{
    char op[64];
    const bool byte = to[1] == '8', from_byte = from[1] == '8', pair = strstr(to, "x2") != NULL;
    snprintf(op, sizeof op, "cvt%s%s.%s.%s", *how ? "." : "", how, to, from);
    form_plain(y, op, byte ? (to[0] == 's' ? "s32" : "u32") : to, from_byte ? "b32" : pair ? "f32 f32" : from, "", "");
}

static inline void forms_of_conversions(form_list *y)
{
    static const char *const ints[] = {"s32", "u32", "s64", "u64", "s16", "u16"};
    static const char *const whole[] = {"rni", "rzi", "rmi", "rpi"}, *const round[] = {"rn", "rz", "rm", "rp"};
    static const char *const narrow[] = {"f16", "bf16", "f16x2", "bf16x2"};
    for (int m = 0; m < 4; m++) {
        for (int t = 0; t < 6; t++) form_cvt(y, whole[m], ints[t], "f32"), form_cvt(y, round[m], "f32", ints[t]);
        form_cvt(y, whole[m], "f32", "f32");
    }
    for (int t = 0; t < 6; t++) form_cvt(y, "rn", "f16", ints[t]);
    for (int i = 0; i < 2; i++) {
        const char *b = i ? "u8" : "s8";
        form_cvt(y, "rni", b, "f32"), form_cvt(y, "rzi", b, "f32"), form_cvt(y, "sat", b, "s32");
        form_cvt(y, "", i ? "u32" : "s32", b), form_cvt(y, "", b, "s32");
        for (int k = 0; k < 4; k++) form_cvt(y, round[i], narrow[k], "f32");
    }
    for (int a = 0; a < 6; a++)
        for (int b = 0; b < 6; b++)
            if (strcmp(ints[a] + 1, ints[b] + 1)) form_cvt(y, "", ints[a], ints[b]);
    form_cvt(y, "sat", "s16", "s32"), form_cvt(y, "sat", "u16", "s32"), form_cvt(y, "sat", "s32", "s64");
    form_cvt(y, "sat", "u32", "s64"), form_cvt(y, "sat", "f32", "f32"), form_cvt(y, "", "f32", "f16");
    form_cvt(y, "rn", "f32", "f64"), form_cvt(y, "", "f64", "f32"), form_cvt(y, "rni", "s32", "f16");
}

/* ---- whole warps ---- */

static inline void form_words(form_list *y)
{
    for (int i = 1; i <= 8; i++)
        form_put(y, "ld.global.u64 %%d%d, [%%d30+%d]; mov.b64 {%%r%d, %%r%d}, %%d%d;\n", i, 8 * i - 8, 2 * i - 1, 2 * i,
                 i);
}

static inline void form_results(form_list *y, char c, int first, int n)
{
    char reg[24];
    for (int i = 0; i < n; i++) {
        snprintf(reg, sizeof reg, "%%%c%d", c, first + i);
        form_result(y, reg);
    }
    form_end(y);
}

/* {%c first, ...} of n registers. */
static inline const char *form_group(char c, int first, int n)
{
    static char text[4][80];
    static int turn;
    char *t = text[turn++ & 3];
    int at = snprintf(t, 80, "{");
    for (int i = 0; i < n; i++) at += snprintf(t + at, 80 - (size_t)at, "%s%%%c%d", i ? ", " : "", c, first + i);
    snprintf(t + at, 80 - (size_t)at, "}");
    return t;
}

static inline void forms_of_products(form_list *y)
{
    static const struct {
        const char *shape;
        int a, b, d;
    } shapes[] = {{"m16n8k32", 4, 2, 4}, {"m16n8k16", 2, 1, 4}, {"m8n8k16", 1, 1, 2}};
    char name[96];
    for (int t = 0; t < 4; t++)
        for (int s = 0; s < 4; s++) { /* the first shape also with .satfinite */
            const int of = s < 2 ? 0 : s - 1;
            const char *a = t & 2 ? "u8" : "s8", *b = t & 1 ? "u8" : "s8", *clamp = s == 1 ? ".satfinite" : "";
            snprintf(name, sizeof name, "mma.%s.%s.%s%s", shapes[of].shape, a, b, clamp);
            form_begin(y, name, "x", "");
            form_words(y);
            form_put(y, "mma.sync.aligned.%s.row.col%s.s32.%s.%s.s32 %s, %s, %s, %s;\n", shapes[of].shape, clamp, a, b,
                     form_group('r', 20, shapes[of].d), form_group('r', 1, shapes[of].a),
                     form_group('r', 5, shapes[of].b), form_group('r', 7, shapes[of].d));
            form_results(y, 'r', 20, shapes[of].d);
        }
    for (int t = 0; t < 2; t++)
        for (int k = 16; k >= 8; k -= 8) { /* pairs of small whole numbers, so that no sum is rounded */
            const char *type = t ? "bf16" : "f16";
            snprintf(name, sizeof name, "mma.m16n8k%d.%s.f32", k, type);
            form_begin(y, name, "f32", "");
            form_words(y);
            for (int i = 1; i <= 10; i++) {
                form_put(y, "and.b32 %%r30, %%r%d, 15; cvt.rn.f32.u32 %%f%d, %%r30; cvt.rn.%s.f32 %%h1, %%f%d;\n", i, i,
                         type, i);
                form_put(y, "shr.u32 %%r30, %%r%d, 8; and.b32 %%r30, %%r30, 15; cvt.rn.f32.u32 %%f20, %%r30;\n", i);
                form_put(y, "cvt.rn.%s.f32 %%h2, %%f20; mov.b32 %%r%d, {%%h1, %%h2};\n", type, 50 + i);
            }
            form_put(y, "mma.sync.aligned.m16n8k%d.row.col.f32.%s.%s.f32 %s, %s, %s, %s;\n", k, type, type,
                     form_group('f', 30, 4), form_group('r', 51, k / 4), form_group('r', 55, k / 8),
                     form_group('f', 7, 4));
            form_results(y, 'f', 30, 4);
        }
}

/* Shared memory filled with the threads' words, 64 bytes each, from %r60 on; a thread's begin at %r61. */
static inline void form_fill(form_list *y)
{
    form_words(y);
    form_put(y, "mov.u32 %%r60, room; mad.lo.u32 %%r61, %%r82, 64, %%r60;\n");
    for (int i = 1; i <= 8; i++) form_put(y, "st.shared.u64 [%%r61+%d], %%d%d;\n", 8 * i - 8, i);
    form_put(y, "bar.sync 0;\n");
}

static inline void forms_of_shared(form_list *y)
{
    static const char room[] = ".shared .align 128 .b8 room[4096];";
    char name[96];
    for (int i = 0; i < 6; i++) {
        const int n = 1 << i / 2;
        snprintf(name, sizeof name, "ldmatrix.x%d%s", n, i & 1 ? ".trans" : "");
        form_begin(y, name, "x", room);
        form_fill(y);
        form_put(y, "shl.b32 %%r62, %%r82, 4; and.b32 %%r62, %%r62, 496; add.u32 %%r62, %%r62, %%r60; xor.b32 %%r62, "
                    "%%r62, 32;\n");
        form_put(y, "ldmatrix.sync.aligned.m8n8.x%d%s.shared.b16 %s, [%%r62];\n", n, i & 1 ? ".trans" : "",
                 form_group('r', 20, n));
        form_results(y, 'r', 20, n);
    }
    for (int i = 0; i < 8; i++) {
        const int size = (int[]){4, 8, 16, 16}[i / 2];
        const char *cache = i / 2 == 3 ? "cg" : "ca";
        snprintf(name, sizeof name, "cp.async.%s.%d%s", cache, size, i & 1 ? ".zfill" : "");
        form_begin(y, name, "x", room);
        form_fill(y);
        form_put(y, "mov.u32 %%r63, %d; cp.async.%s.shared.global [%%r61+16], [%%d30+32], %d%s;\n", size / 2, cache,
                 size, i & 1 ? ", %r63" : "");
        form_put(
            y,
            "cp.async.commit_group; cp.async.wait_group 0; bar.sync 0; ld.shared.v2.u64 {%%d20, %%d21}, [%%r61+16];\n");
        form_results(y, 'd', 20, 2);
    }
    static const char *const reds[][2] = {{"add", "u32"}, {"add", "s32"}, {"min", "s32"},
                                          {"max", "u32"}, {"and", "b32"}, {"or", "b32"},
                                          {"xor", "b32"}, {"add", "u64"}, {"max", "u64"}};
    for (int i = 0; i < 9; i++) {
        snprintf(name, sizeof name, "red.shared.%s.%s", reds[i][0], reds[i][1]);
        form_begin(y, name, "x", ".shared .align 8 .b8 room[64];");
        form_words(y);
        form_put(y, "mov.u32 %%r60, room; setp.eq.u32 %%p1, %%r82, 0; @%%p1 st.shared.u64 [%%r60], 5; bar.sync 0;\n");
        form_put(y, "%s [%%r60], %%%s1; bar.sync 0; ld.shared.u64 %%d21, [%%r60];\n", name,
                 reds[i][1][1] == '6' ? "d" : "r");
        form_results(y, 'd', 21, 1);
    }
}

/* A form of the words whose results are named. */
static inline void form_lanes(form_list *y, const char *name, const char *body, const char *a, const char *b)
{
    form_begin(y, name, "x", "");
    form_words(y);
    form_put(y, "and.b32 %%r40, %%r1, 1; setp.eq.u32 %%p1, %%r40, 1; %s\n", body);
    form_result(y, a);
    if (b) form_result(y, b);
    form_end(y);
}

static inline void forms_of_lanes(form_list *y)
{
    static const char *const modes[] = {"idx", "up", "down", "bfly"};
    static const char *const reds[][2] = {{"add", "s32"}, {"add", "u32"}, {"min", "s32"},
                                          {"min", "u32"}, {"max", "s32"}, {"max", "u32"},
                                          {"and", "b32"}, {"or", "b32"},  {"xor", "b32"}};
    char name[64], body[160];
    for (int m = 0; m < 4; m++) {
        const int limit = m == 1 ? 0 : 31, clamps[] = {limit, 0x1800 | limit, 0x1000 | limit};
        for (int k = 0; k < 3; k++) {
            snprintf(name, sizeof name, "shfl.%s.%d", modes[m], clamps[k]);
            snprintf(body, sizeof body, "shfl.sync.%s.b32 %%r20|%%p2, %%r1, %d, %d, -1;", modes[m], m ? 5 : 19,
                     clamps[k]);
            form_lanes(y, name, body, "%r20", "%p2");
        }
        snprintf(name, sizeof name, "shfl.%s.lanes", modes[m]);
        snprintf(body, sizeof body, "shfl.sync.%s.b32 %%r20|%%p2, %%r1, %%r3, %d, -1;", modes[m], limit);
        form_lanes(y, name, body, m ? "%p2" : "%r20", NULL);
    }
    form_lanes(y, "vote.any", "vote.sync.any.pred %p2, %p1, -1;", "%p2", NULL);
    form_lanes(y, "vote.all", "vote.sync.all.pred %p2, %p1, -1;", "%p2", NULL);
    form_lanes(y, "vote.uni", "vote.sync.uni.pred %p2, %p1, -1;", "%p2", NULL);
    form_lanes(y, "vote.ballot", "vote.sync.ballot.b32 %r21, %p1, -1;", "%r21", NULL);
    form_lanes(y, "match.any", "and.b32 %r20, %r1, 3; match.any.sync.b32 %r21, %r20, -1;", "%r21", NULL);
    form_lanes(y, "match.all", "match.all.sync.b32 %r21|%p2, 0, -1;", "%r21", "%p2");
    for (int i = 0; i < 9; i++) {
        snprintf(name, sizeof name, "redux.%s.%s", reds[i][0], reds[i][1]);
        snprintf(body, sizeof body, "redux.sync.%s.%s %%r20, %%r1, -1;", reds[i][0], reds[i][1]);
        form_lanes(y, name, body, "%r20", NULL);
    }
    form_lanes(y, "activemask",
               "and.b32 %r20, %r82, 1; setp.eq.u32 %p1, %r20, 1; mov.u32 %r21, 0; @%p1 bra SKIP; activemask.b32 %r21;\n"
               "SKIP: bar.warp.sync -1;",
               "%r21", NULL);
    form_lanes(y, "bar.red.popc", "bar.red.popc.u32 %r21, 0, %p1;", "%r21", NULL);
    for (int i = 0; i < 6; i++) {
        const char *t = (const char *[]){"u8", "s8", "u16", "s16", "u32", "s32"}[i];
        snprintf(name, sizeof name, "ld.%s", t);
        snprintf(body, sizeof body, "ld.global.%s %%r20, [%%d30+%d];", t, i < 2 ? 9 : 12);
        form_lanes(y, name, body, "%r20", NULL);
    }
    form_lanes(y, "ld.v4.u8", "ld.global.v4.u8 {%h1, %h2, %h3, %h4}, [%d30+8]; mov.b64 %d20, {%h1, %h2, %h3, %h4};",
               "%d20", NULL);
    form_begin(y, "ld.nc.v4.u32", "x", "");
    form_put(y, "ld.global.nc.v4.u32 %s, [%%d30+16];\n", form_group('r', 20, 4));
    form_results(y, 'r', 20, 4);
}

static inline void forms_of_ampere(form_fn *fn, void *user)
{
    static form_list y;
    y.fn = fn;
    y.user = user;
    forms_of_integers(&y);
    forms_of_bits(&y);
    forms_of_floats(&y);
    forms_of_conversions(&y);
    forms_of_products(&y);
    forms_of_shared(&y);
    forms_of_lanes(&y);
}

/* ---- operands and results ---- */

/* The words of all threads: random bits, small numbers, and bits that are special to floats and integers. */
static inline uint64_t form_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static inline void form_operands(uint64_t words[FORM_THREADS * FORM_WORDS])
{
    static const uint32_t special[] = {
        0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
        0x7fc00000, 0x7f800001, 0xffffffff, 0x7fffffff, 0x7f7fffff, 0xff7fffff, 0x00800000, 0x007fffff,
        0x4f000000, 0xcf000000, 0x4f800000, 0x5f000000, 0x3f000000, 0x3fc00000, 0x40200000, 0x4b000000,
        0x4b800001, 0x477fe000, 0x477ff000, 0x33000000, 0x33000001, 0x38800000, 0x387fc000, 0x00007c00,
        0x0000fc00, 0x00007e00, 0x00000400, 0x7c007c00, 0xff80ff80};
    const uint64_t n = sizeof special / sizeof *special;
    uint64_t state = 88172645463325252;
    for (int i = 0; i < FORM_THREADS * FORM_WORDS; i++) {
        const uint64_t kind = form_random(&state) % 10, r = form_random(&state);
        float v = kind == 9 ? (float)((int32_t)(r % 2001) - 1000) * 0.5f : (float)(int32_t)(r >> 32) * 1e-7f;
        uint32_t bits;
        memcpy(&bits, &v, 4);
        switch (kind) {
        case 3:
        case 4:
        case 9: words[i] = r << 32 | bits; break;
        case 5: words[i] = (uint64_t)(int64_t)((int32_t)(r % 601) - 300); break;
        case 6: words[i] = r << 32 | special[(r >> 40) % n]; break;
        case 7: words[i] = (uint64_t)special[r % n] << 32 | special[(r >> 20) % n]; break;
        case 8: words[i] = r << 32 | (uint32_t)(r & 0x807fffff); break;
        default: words[i] = r;
        }
    }
}

static inline bool form_nan(const char *type, uint64_t v)
{
    if (!strcmp(type, "f32")) return (v & 0x7fffffff) > 0x7f800000;
    if (!strcmp(type, "f64")) return (v & INT64_MAX) > UINT64_C(0x7ff) << 52;
    return (v & 0x7fff) > (*type == 'b' ? 0x7f80 : 0x7c00);
}

/* FNV-1a of a form's results, threads in order, where every NaN has all bits set. */
static inline uint64_t form_hash(const form *f, const uint64_t *results)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (int i = 0; i < FORM_THREADS * FORM_RESULTS; i++) {
        uint64_t v = results[i];
        if (i % FORM_RESULTS >= f->n) continue;
        if (strstr(f->type, "x2")) {
            for (int h = 0; h < 32; h += 16)
                if (form_nan(f->type, v >> h)) v |= UINT64_C(0xffff) << h;
        } else if (*f->type != 'x' && form_nan(f->type, v)) {
            v = UINT64_MAX;
        }
        for (int b = 0; b < 64; b += 8) hash = (hash ^ (v >> b & 255)) * 0x100000001b3;
    }
    return hash;
}
