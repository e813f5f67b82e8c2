/* log.c - see log.h. */
#include "base/log.h"

#include "base/clock.h"
#include "base/terminal.h"
#include "base/utf8.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const words[] = {"error", "warn", "info", "debug"};
static atomic_int threshold = LOG_INFO;
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
static size_t quote_text(char *to, const char *text)
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
        at += quote_text(line + at, text);
        line[at++] = '}';
    } else {
        char when[WHEN];
        const bool timed = atomic_load(&with_times);
        at = (size_t)snprintf(line, sizeof line, "%s%s%s%s%s", timed ? print_now(when) : "", timed ? " " : "",
                              level == LOG_INFO ? "" : words[level], level == LOG_INFO ? "" : ": ", text);
    }
    line[at++] = '\n';
    log_progress_wipe();
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

/* ---- bars */

enum { BAR_CELLS = 30, BAR_CELLS_MIN = 4, BAR_LINE = 256 };

static pthread_mutex_t bar_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    const char *what;         /* NULL: none has begun */
    double began, told;       /* seconds, of its first and its last line */
    unsigned long long first; /* done when it began */
    int width;                /* characters of its line that stand on the terminal */
} bar;

/* "12.3 MB/s", "845 tokens/s" */
static int print_rate(char *to, size_t size, double rate, const char *unit)
{
    if (strcmp(unit, "bytes") != 0) return snprintf(to, size, rate < 10 ? "%.1f %s/s" : "%.0f %s/s", rate, unit);
    return rate < 1e9 ? snprintf(to, size, "%.1f MB/s", rate / 1e6) : snprintf(to, size, "%.2f GB/s", rate / 1e9);
}

static int print_rest(char *to, size_t size, double seconds)
{
    if (seconds < 100) return snprintf(to, size, ", %.0f s left", ceil(seconds));
    if (seconds < 6000) return snprintf(to, size, ", %.0f min left", ceil(seconds / 60));
    return seconds < 1e7 ? snprintf(to, size, ", %.0f h left", ceil(seconds / 3600)) : 0;
}

/* "reading [######....]  60%, 845 tokens/s, 3 s left" in at most `room` characters: cells go first, then the rest and
 * the rate. */
static int print_bar(char *to, int room, unsigned long long done, unsigned long long total, double now,
                     const char *unit)
{
    char more[100] = "";
    const double seconds = now - bar.began, rate = seconds > 0 ? (double)(done - bar.first) / seconds : 0;
    int n = snprintf(to, BAR_LINE, "%.*s ", room > 30 ? 20 : room > 10 ? room - 10 : 0, bar.what), n_more = 0;
    const int percent = 6; /* " 100%" and what may follow */
    if (rate > 0 && seconds > 0.2) {
        n_more = snprintf(more, sizeof more, ", ");
        n_more += print_rate(more + n_more, sizeof more - (size_t)n_more, rate, unit);
        const int with_rate = n_more;
        if (done < total)
            n_more += print_rest(more + n_more, sizeof more - (size_t)n_more, (double)(total - done) / rate);
        if (n + percent + n_more > room) more[n_more = with_rate] = 0;
        if (n + percent + n_more > room) more[n_more = 0] = 0;
    }
    const int free_room = room - n - percent - 2 - n_more, cells = free_room < BAR_CELLS ? free_room : BAR_CELLS;
    if (cells >= BAR_CELLS_MIN) {
        const int full = (int)((double)cells * ((double)done / (double)total));
        to[n++] = '[';
        for (int i = 0; i < cells; i++) to[n++] = i < full ? '#' : '.';
        to[n++] = ']';
        to[n++] = ' ';
    }
    return n + snprintf(to + n, (size_t)(BAR_LINE - n), "%3.0f%%%s", floor(100 * ((double)done / (double)total)), more);
}

void log_progress(const char *what, const char *unit, unsigned long long done, unsigned long long total)
{
    if (!terminal_rewrites(STDERR_FILENO) || !total) return;
    char line[BAR_LINE + 160];
    const double now = clock_now();
    const int columns = terminal_columns(STDERR_FILENO), room = columns < 160 ? columns - 1 : 159;
    pthread_mutex_lock(&bar_lock);
    const bool begins = !bar.what || strcmp(bar.what, what) != 0 || done < bar.first, ends = done >= total;
    if (begins) bar.what = what, bar.began = now, bar.first = done;
    if (ends || now - bar.told >= 0.1) {
        line[0] = '\r';
        int n = print_bar(line + 1, room, done, total, now, unit), old = bar.width < room ? bar.width : room;
        bar.width = ends ? 0 : n;
        for (; n < old; n++) line[1 + n] = ' ';
        if (ends) line[1 + n++] = '\n', bar.what = NULL;
        write_all(line, 1 + (size_t)n);
        bar.told = now;
    }
    pthread_mutex_unlock(&bar_lock);
}

void log_progress_wipe(void)
{
    char line[BAR_LINE];
    pthread_mutex_lock(&bar_lock);
    if (bar.width) {
        const int columns = terminal_columns(STDERR_FILENO); /* it may have become narrower */
        const int width = bar.width < columns ? bar.width : columns - 1;
        write_all(line, (size_t)snprintf(line, sizeof line, "\r%*s\r", width, ""));
    }
    bar.width = 0;
    pthread_mutex_unlock(&bar_lock);
}

void log_progress_end(void)
{
    log_progress_wipe();
    pthread_mutex_lock(&bar_lock);
    bar.what = NULL;
    pthread_mutex_unlock(&bar_lock);
}
