/* log.c - see log.h. */
#include "base/log.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const words[] = {"error", "warn", "info", "debug"};
static atomic_int threshold = LOG_INFO, bar_width; /* of a bar that has not ended */
static atomic_bool as_json, with_times;

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

void log_set_json(bool on) { atomic_store(&as_json, on); }
void log_set_times(bool on) { atomic_store(&with_times, on); }

enum { WHEN = 40 };

/* "2026-11-27T13:36:16.042Z" */
static const char *print_now(char to[WHEN])
{
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    const size_t n = strftime(to, WHEN, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(to + n, WHEN - n, ".%03ldZ", now.tv_nsec / 1000000);
    return to;
}

/* The head of a JSON line, up to its first own member. */
static int json_head(char *to, size_t size, log_level level)
{
    char when[WHEN];
    return snprintf(to, size, "{\"time\":\"%s\",\"level\":\"%s\",", print_now(when), words[level]);
}

/* Names from files and requests must not steer a terminal or forge a line. */
static size_t clean(char *line)
{
    size_t n = strlen(line);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)line[i] < 32 || line[i] == 127) line[i] = '?';
    return n;
}

/* A cleaned text as a JSON string, without allocation: steps log too. */
static size_t quote(char *to, const char *text)
{
    bool valid = utf8_is_valid(span_str(text));
    size_t n = 0;
    to[n++] = '"';
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') to[n++] = '\\';
        to[n++] = *text < 0 && !valid ? '?' : *text;
    }
    to[n++] = '"';
    return n;
}

void log_line(log_level level, const char *fmt, ...)
{
    if ((int)level > atomic_load(&threshold)) return;
    char text[2048], line[2 * sizeof text + 128];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0) return;
    clean(text);
    size_t at;
    if (atomic_load(&as_json)) {
        at = (size_t)json_head(line, sizeof line, level);
        at += (size_t)sprintf(line + at, "\"message\":");
        at += quote(line + at, text);
        line[at++] = '}';
    } else {
        char when[WHEN];
        const bool timed = atomic_load(&with_times);
        at = (size_t)snprintf(line, sizeof line, "%s%s%s%s%s", timed ? print_now(when) : "", timed ? " " : "",
                              level == LOG_INFO ? "" : words[level], level == LOG_INFO ? "" : ": ", text);
    }
    line[at++] = '\n';
    log_progress_end();
    write_all(line, at);
}

void log_event(log_level level, const char *text, const char *members)
{
    if (!atomic_load(&as_json)) {
        log_line(level, "%s", text);
        return;
    }
    if ((int)level > atomic_load(&threshold)) return;
    char line[4096];
    int n = json_head(line, sizeof line, level), more = snprintf(line + n, sizeof line - (size_t)n, "%s}\n", members);
    if (more > 0 && (size_t)(n + more) < sizeof line) write_all(line, (size_t)(n + more));
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
