/* test.h - what every test file starts with: cmocka, and where the optional shared test data is.
 *
 * A test program is tests/t_<subject>.c with one main that calls cmocka_run_group_tests; tools/run_tests.sh finds it by
 * name. */
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED /* it has memory of its own */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif

/* Fails with the message of an err when rc is not 0. */
#define assert_ok(rc, e)                                                                                               \
    do {                                                                                                               \
        int rc_value = (rc);                                                                                           \
        if (rc_value) fail_msg("%s:%d: code %d: %s", __FILE__, __LINE__, rc_value, (e)->msg);                          \
    } while (0)

/* Path of a file of the shared test data in a static buffer (8 in rotation), or NULL when it is absent: then say
 * skip_msg and return. The folder is $INFERFLOW_SHARED/data or ../shared/data. */
static inline const char *shared_path(const char *name)
{
    static char path[8][1024];
    static int turn;
    const char *root = getenv("INFERFLOW_SHARED");
    char *p = path[turn++ & 7];
    snprintf(p, sizeof path[0], "%s/data/%s", root ? root : "../shared", name);
    return access(p, R_OK) == 0 ? p : NULL;
}

/* The runner counts these lines. */
#define skip_msg(...) (printf("skipped: " __VA_ARGS__), printf("\n"))

/* How many times longer than alone on a machine a program takes now: the time of 5 ms of computing. At least 1. Limits
 * of what must happen soon are multiplied by it. */
static inline double test_slowness(void)
{
    struct timespec wall0, wall1, cpu0, cpu1;
    clock_gettime(CLOCK_MONOTONIC, &wall0);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu0);
    double spent = 0;
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu1);
        spent = (double)(cpu1.tv_sec - cpu0.tv_sec) + 1e-9 * (double)(cpu1.tv_nsec - cpu0.tv_nsec);
    } while (spent < 5e-3);
    clock_gettime(CLOCK_MONOTONIC, &wall1);
    double took = (double)(wall1.tv_sec - wall0.tv_sec) + 1e-9 * (double)(wall1.tv_nsec - wall0.tv_nsec);
    return took > spent ? took / spent : 1;
}

/* A file name for output of a test, in a folder that is removed by nobody: small files only. Static buffer, 8 in
 * rotation. */
static inline const char *temp_path(const char *name)
{
    static char path[8][256];
    static int turn;
    char *p = path[turn++ & 7];
    const char *dir = getenv("TMPDIR");
    snprintf(p, sizeof path[0], "%s/inferflow-test-%d-%s", dir ? dir : "/tmp", (int)getpid(), name);
    return p;
}

/* Pages of files in this process's memory. */
static inline long shared_pages(void)
{
    long size = 0, resident = 0, shared = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld %ld %ld", &size, &resident, &shared), 3);
    fclose(f);
    return shared;
}
