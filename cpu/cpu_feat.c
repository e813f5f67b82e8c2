/* cpu_feat.c - features that the processor has and whose registers the operating system saves. x86: CPUID leaves 1 and
 * 7, XGETBV, brand string. Arm: the auxiliary vector, and the identification register as Linux shows it. */
#include "cpu/cpu.h"

#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* Register state that the system saves: bits 1, 2 vectors of 128 and 256 bits, 5 to 7 those of AVX-512. */
static uint64_t saved_state(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static unsigned find_features(void)
{
    unsigned a, b, c, d, b7, c7;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0;
    bool base = (c & bit_AVX) && (c & bit_FMA) && (c & bit_F16C);
    if (!__get_cpuid_count(7, 0, &a, &b7, &c7, &d)) return 0;
    uint64_t saved = saved_state();
    unsigned f = 0;
    if (base && (saved & 6) == 6 && (b7 & bit_AVX2)) {
        f |= CPU_AVX2;
        unsigned need7 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL,
                 needc = bit_AVX512VNNI | bit_AVX512VBMI;
        unsigned a71, b71, c71, d71;
        if (!__get_cpuid_count(7, 1, &a71, &b71, &c71, &d71)) a71 = 0;
        if (a71 & 1u << 4) f |= CPU_AVXVNNI;
        if ((saved & 0xe6) == 0xe6 && (b7 & need7) == need7 && (c7 & needc) == needc) {
            f |= CPU_AVX512;
            if (a71 & 1u << 5) f |= CPU_AVX512BF16;
        }
    }
    return f;
}

const char *cpu_model(void)
{
    static char name[49];
    unsigned top, words[12], unused;
    if (!__get_cpuid(0x80000000, &top, &unused, &unused, &unused) || top < 0x80000004) return "unknown";
    for (unsigned i = 0; i < 3; i++)
        __get_cpuid(0x80000002 + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3]);
    memcpy(name, words, 48);
    const char *s = name;
    while (*s == ' ') s++;
    return s;
}

#elif defined(__aarch64__)
#include <stdio.h>
#include <sys/auxv.h>

/* Bits of AT_HWCAP (Linux, arch/arm64/include/uapi/asm/hwcap.h). */
enum { HAS_ASIMD = 1 << 1, HAS_CPUID = 1 << 11, HAS_ASIMDDP = 1 << 20 };

static unsigned find_features(void)
{
    unsigned long has = getauxval(AT_HWCAP);
    return (has & HAS_ASIMD ? CPU_NEON : 0) | (has & HAS_ASIMDDP ? CPU_DOTPROD : 0);
}

const char *cpu_model(void)
{
    static char name[40];
    uint64_t id;
    if (!(getauxval(AT_HWCAP) & HAS_CPUID)) return "unknown";
    __asm__("mrs %0, midr_el1" : "=r"(id));
    snprintf(name, sizeof name, "Arm, implementer 0x%02x part 0x%03x", (unsigned)(id >> 24 & 0xff),
             (unsigned)(id >> 4 & 0xfff));
    return name;
}

#else

static unsigned find_features(void) { return 0; }
const char *cpu_model(void) { return "unknown"; }

#endif

unsigned cpu_features(void)
{
    enum { FOUND = 1 << 30 };
    static atomic_uint found;
    unsigned f = atomic_load_explicit(&found, memory_order_relaxed);
    if (!f) atomic_store_explicit(&found, f = find_features() | FOUND, memory_order_relaxed);
    return f & ~(unsigned)FOUND;
}
