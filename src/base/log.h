/* log.h - one line per event on standard error, one write(2) per line. Levels: error warn info debug; default info. */
#pragma once
typedef enum { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG } log_level;

/* "error", "warn", "info", "debug"; returns 0, or -1 for an unknown word. */
int log_set_level(const char *word);
void log_line(log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Progress of long work: a bar on standard error, only when it is a terminal. done = total ends the line. */
void log_progress(const char *what, unsigned long long done, unsigned long long total);
/* Wipes a bar that has not ended. Called before a result is printed; log_line does it itself. */
void log_progress_end(void);
