/* t_makefile.c - the Makefile's promises: a user's flags add to ours and do not change the bits of a kernel, install
 * and uninstall, and what `make setup` does on each system. */
#define _GNU_SOURCE
#include "tests/command.h"

#include "base/version.h"
#include "cpu/cpu.h"
#include "tests/rig.h"

#include <dlfcn.h>

#define HOSTILE "-Ofast -march=native -ffp-contract=fast -std=gnu17 -fPIC"
/* Without what this run of make was told. */
#define QUIET   "env -u MAKEFLAGS -u CC -u OPT -u SAN -u OPENMP make --no-print-directory -s "

static char folder[256];
static buf out;

/* Runs a command in a shell; its exit status. What it prints comes into `out`, a NUL after it. */
__attribute__((format(printf, 1, 2))) static int shell(const char *fmt, ...)
{
    char line[4096], part[4096];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line - 6, fmt, ap);
    va_end(ap);
    assert_true(n > 0 && (size_t)n < sizeof line - 6);
    strcpy(line + n, " 2>&1");
    out.n = 0;
    FILE *f = popen(line, "r");
    assert_non_null(f);
    for (size_t got; (got = fread(part, 1, sizeof part, f)) > 0;) buf_add(&out, part, got);
    buf_byte(&out, 0);
    int rc = pclose(f);
    return WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}

static void must(int rc)
{
    if (rc) fail_msg("status %d: %s", rc, (const char *)out.p);
}

static int make_folder(void **unused)
{
    (void)unused;
    snprintf(folder, sizeof folder, "%s", temp_path("t_makefile"));
    return shell("rm -rf %s && mkdir -p %s", folder, folder);
}

static int remove_folder(void **unused)
{
    (void)unused;
    int rc = shell("rm -rf %s", folder);
    buf_free(&out);
    return rc;
}

/* def_norm.c built with a user's flags; `ours`: assignments to variables of the Makefile. */
static kernel build_norm(const char *ours, void **library)
{
    must(shell(QUIET "BUILD=%s/b CFLAGS='" HOSTILE "' %s %s/b/obj/src/ops/def_norm.o && cc -shared -o %s/norm.so "
                     "%s/b/obj/src/ops/def_norm.o -lm",
               folder, ours, folder, folder, folder));
    char path[300];
    snprintf(path, sizeof path, "%s/norm.so", folder);
    *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!*library) fail_msg("%s", dlerror());
    kernel fn;
    *(void **)&fn = dlsym(*library, "def_norm");
    assert_non_null(fn);
    return fn;
}

/* Whether the kernel gives the bits of this build's. */
static bool equals_ours(kernel other)
{
    enum { WIDTH = 1000, ROWS = 8 };
    float want[WIDTH * ROWS];
    rig g;
    int rows[] = {ROWS}, last[] = {ROWS - 1};
    rig_open(&g, 4 * sizeof want);
    rig_sequences(&g, 1, rows, last);
    op o = {.kind = OP_NORM, .u.norm = {.eps = 1e-5f, .kind = NORM_LAYER, .width = WIDTH}};
    o.in[0] = rig_act(&g, WIDTH);
    o.in[1] = rig_const(&g, WIDTH);
    o.in[2] = rig_const(&g, WIDTH);
    o.out = rig_act(&g, WIDTH);
    def_norm(&g.r, &o, 0, 1);
    memcpy(want, rig_at(&g, o.out), sizeof want);
    other(&g.r, &o, 0, 1);
    bool same = memcmp(want, rig_at(&g, o.out), sizeof want) == 0;
    rig_close(&g);
    return same;
}

static void flags_of_a_user_do_not_change_the_bits(void **unused)
{
    (void)unused;
    void *library;
    assert_true(equals_ours(build_norm("", &library)));
    dlclose(library);
    assert_false(equals_ours(build_norm("BITS=", &library))); /* without ours they would */
    dlclose(library);
}

static void comes_after(const char *early, const char *late)
{
    const char *a = strstr((char *)out.p, early);
    if (!a || !strstr(a, late)) fail_msg("%s, then %s: not in %s", early, late, (const char *)out.p);
}

static void flags_of_a_user_are_added(void **unused)
{
    (void)unused;
    must(shell(QUIET "-n V=1 BUILD=%s/b CFLAGS='" HOSTILE "' CPPFLAGS=-DTHEIRS LDFLAGS=-Wl,-O1 %s/b/inferflow "
                     "| grep -v ^echo",
               folder, folder));
    comes_after("-O2 -g", "-Ofast");
    comes_after("-ffp-contract=fast", "-ffp-contract=off");
    comes_after("-std=gnu17", "-std=gnu11");
    comes_after("-Isrc", "-DTHEIRS");
    comes_after("-Wl,-O1", "-pthread");
    must(shell(QUIET "-n V=1 BUILD=%s/b CFLAGS='" HOSTILE "' %s/b/inferflow | grep 'kernels_[a-z0-9]*[.]c'", folder,
               folder));
#ifdef __x86_64__
    comes_after("-march=native", "-march=x86-64");
#endif
}

static void without_packages_make_names_setup(void **unused)
{
    (void)unused;
    assert_int_equal(shell(QUIET "BUILD=%s/none CC='gcc -nostdinc' OPENMP=0 all", folder), 2);
    assert_non_null(strstr((char *)out.p, "run 'make setup'"));
    assert_null(strstr((char *)out.p, "  CC"));
}

static void setup_knows_the_systems(void **unused)
{
    (void)unused;
    static const struct {
        const char *release, *says;
        int rc;
    } row[] = {
        {"ID=debian",
         "apt-get install -y -q --no-install-recommends gcc libc6-dev make git python3 curl libmicrohttpd-dev ", 0},
        {"ID=ubuntu\nID_LIKE=debian", "apt-get install ", 0},
        {"ID=linuxmint\nID_LIKE=\"ubuntu debian\"", "apt-get install ", 0},
        {"ID=fedora", "dnf install -y gcc make git python3 curl libmicrohttpd-devel cjson-devel ", 0},
        {"ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"", "dnf install ", 0},
        {"ID=arch", "pacman -S --needed --noconfirm gcc make git python curl libmicrohttpd cjson libinih ", 0},
        {"ID=alpine", "apk add build-base linux-headers git python3 curl libmicrohttpd-dev ", 0},
        {"ID=plan9", "no package list for this system (plan9); missing: <cjson/cJSON.h> <ini.h> <microhttpd.h> ", 1},
        {"", "no package list for this system (unknown); missing: ", 1},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        must(shell("printf '%%s\\n' '%s' >%s/release", row[i].release, folder));
        int rc = shell("CC='gcc -nostdinc' DRY_RUN=1 OS_RELEASE=%s/release tools/setup.sh", folder);
        if (rc != row[i].rc || !strstr((char *)out.p, row[i].says))
            fail_msg("%s: status %d, \"%s\"", row[i].release, rc, (const char *)out.p);
    }
}

/* A compiler that is there is found, with the targets that are asked for. */
static void setup_of_cuda_is_found(void **unused)
{
    (void)unused;
    must(shell("DRY_RUN=1 PYTHON=python tools/setup_cuda.sh %s/cuda", folder));
    comes_after("python -m pip install --no-deps --target ", "/cuda.new nvidia-cuda-nvcc==13.0.");
    must(shell("printf '#!/bin/sh\\nexit 0\\n' >%s/nvcc && chmod +x %s/nvcc", folder, folder));
    must(shell(QUIET "-n V=1 CUDA=1 NVCC=%s/nvcc CUDA_TARGETS='sm_89 sm_120' BUILD=%s/b %s/b/gen/embedded.S", folder,
               folder, folder));
    comes_after("/nvcc -cubin -arch=sm_89 ", "fast.sm_89.cubin");
    comes_after("/nvcc -cubin -arch=sm_120 ", "fast.sm_120.cubin");
    comes_after("/nvcc -ptx -arch=compute_80 ", "fast.compute_80.ptx");
    assert_null(strstr((char *)out.p, "sm_80"));
    must(shell(QUIET "CUDA=1 NVCC=%s/nvcc CUDA_TARGETS=all config", folder));
    comes_after("/nvcc for sm_80 sm_86 sm_89 sm_90a sm_100 sm_103 sm_120", " and as PTX");
    must(shell(QUIET "CUDA=0 config"));
    comes_after("NVIDIA GPUs ", "make setup-cuda");
}

/* The folder of the executable under test, or NULL: it is run by something else. */
static const char *build_folder(void)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s", command_binary());
    char *slash = strrchr(path, '/');
    if (strchr(path, ' ') || !slash) return NULL;
    *slash = 0;
    return path;
}

static void install_strip_and_uninstall(void **unused)
{
    (void)unused;
    const char *build = build_folder();
    if (!build) {
        skip_msg("the executable is for another machine");
        return;
    }
    must(shell(QUIET "-o all BUILD=%s DESTDIR=%s/root PREFIX=/usr install", build, folder));
    must(shell("cd %s/root && find * -type f | sort", folder));
    assert_string_equal(out.p, "usr/bin/inferflow\n"
                               "usr/share/bash-completion/completions/inferflow\n"
                               "usr/share/fish/vendor_completions.d/inferflow.fish\n"
                               "usr/share/licenses/inferflow/LICENSE\n"
                               "usr/share/man/man1/inferflow.1\n"
                               "usr/share/zsh/site-functions/_inferflow\n");
    must(shell("cmp %s/inferflow %s/root/usr/bin/inferflow", build, folder));
    must(shell(QUIET "-o all BUILD=%s DESTDIR=%s/root PREFIX=/usr install-strip", build, folder));
    must(shell("%s/root/usr/bin/inferflow --version && ! nm %s/root/usr/bin/inferflow 2>/dev/null | grep .", folder,
               folder));
    assert_memory_equal(out.p, "inferflow " INFERFLOW_RELEASE, sizeof "inferflow " INFERFLOW_RELEASE - 1);
    must(shell(QUIET "-o all BUILD=%s DESTDIR=%s/root PREFIX=/usr uninstall && find %s/root -type f", build, folder,
               folder));
    assert_string_equal(out.p, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_of_a_user_do_not_change_the_bits),
        cmocka_unit_test(flags_of_a_user_are_added),
        cmocka_unit_test(without_packages_make_names_setup),
        cmocka_unit_test(setup_knows_the_systems),
        cmocka_unit_test(setup_of_cuda_is_found),
        cmocka_unit_test(install_strip_and_uninstall),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
