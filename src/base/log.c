/* log.c - see log.h. */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const words[] = {"error", "warn", "info", "debug"};
static atomic_int threshold = LOG_INFO, bar_width; /* of a bar that has not ended */

int log_set_level(const char *word)
{
    for (int i = 0; i < 4; i++)
        if (strcmp(word, words[i]) == 0) {
            atomic_store(&threshold, i);
            return 0;
        }
    return -1;
}

static void write_all(const char *p, size_t n)
{
    while (n) {
        ssize_t k = write(STDERR_FILENO, p, n);
        if (k <= 0) return;
        p += k;
        n -= (size_t)k;
    }
}

void log_line(log_level level, const char *fmt, ...)
{
    if ((int)level > atomic_load(&threshold)) return;
    char line[2048];
    int head = level == LOG_INFO ? 0 : snprintf(line, sizeof line, "%s: ", words[level]);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line + head, sizeof line - (size_t)head - 1, fmt, ap);
    va_end(ap);
    if (n < 0) return;
    size_t len = strlen(line);
    for (size_t i = 0; i < len; i++) /* names from files and requests must not steer a terminal or forge a line */
        if ((unsigned char)line[i] < 32 || line[i] == 127) line[i] = '?';
    line[len] = '\n';
    log_progress_end();
    write_all(line, len + 1);
}

void log_progress(const char *what, unsigned long long done, unsigned long long total)
{
    static _Thread_local struct timespec last;
    if (!isatty(STDERR_FILENO) || !total) return;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long ms = (now.tv_sec - last.tv_sec) * 1000 + (now.tv_nsec - last.tv_nsec) / 1000000;
    if (done < total && ms < 100) return;
    last = now;
    char bar[31], line[200];
    int full = (int)(30 * done / total);
    for (int i = 0; i < 30; i++) bar[i] = i < full ? '#' : '.';
    bar[30] = 0;
    int n = snprintf(line, sizeof line, "\r%-20.60s [%s] %3llu%%%s", what, bar, 100 * done / total,
                     done >= total ? "\n" : "");
    write_all(line, (size_t)n);
    atomic_store(&bar_width, done < total ? n - 1 : 0);
}

void log_progress_end(void)
{
    char line[204];
    int width = atomic_exchange(&bar_width, 0);
    if (width) write_all(line, (size_t)snprintf(line, sizeof line, "\r%*s\r", width, ""));
}
