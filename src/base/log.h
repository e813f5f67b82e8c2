/* log.h - one line per event on standard error, one write(2) per line. Levels: error warn info debug; default info. */
#pragma once
#include <stdbool.h>

typedef enum { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG } log_level;

/* "error", "warn", "info", "debug"; returns 0, or -1 for an unknown word. */
int log_set_level(const char *word);
void log_line(log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* From here on every line is a JSON object: {"time", "level", "message"}. */
void log_set_json(bool on);
/* From here on every line of text begins with date and time (UTC), as those in JSON have them. */
void log_set_times(bool on);
/* An event of several values: `text` as a line, or in JSON the members `"a":1,"b":2` instead of "message". */
void log_event(log_level level, const char *text, const char *members);

/* Progress of long work: a bar of the terminal's width on standard error, with rate and rest; only where that is a
 * terminal that can write over a line. `unit` names the things counted: "bytes", "tokens", ...; both texts outlive the
 * bar. done = total ends the line. */
void log_progress(const char *what, const char *unit, unsigned long long done, unsigned long long total);
/* Wipes a bar before something else is printed; the work goes on. log_line does it itself. */
void log_progress_wipe(void);
/* Wipes a bar that has not come to its end; its work is over. */
void log_progress_end(void);
