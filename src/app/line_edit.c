/* line_edit.c - see line_edit.h. The only file that includes libedit.
 *
 * Terminals put marks around pasted text when they are asked to (bracketed paste). Text between the marks is taken as
 * it is, with its line ends. */
#define _GNU_SOURCE
#include "app/line_edit.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_EDIT
#include <errno.h>
#include <histedit.h>
#include <signal.h>
#include <sys/stat.h>
#include <wchar.h>

enum { HISTORY_LINES = 1000, PASTE_MAX = 1 << 20, PATH_BYTES = 1024 };

static EditLine *editor;
static History *past;
static const char *shown_prompt = "";
static char history_path[PATH_BYTES];
static bool dropped;

static char *give_prompt(EditLine *el)
{
    (void)el;
    return (char *)shown_prompt;
}

/* Marks around pastes, of a terminal that knows them. */
static void ask_for_marks(bool on)
{
    const char *kind = getenv("TERM");
    if (!kind || strcmp(kind, "dumb") == 0) return;
    fputs(on ? "\033[?2004h" : "\033[?2004l", stdout);
    fflush(stdout);
}

/* Called behind the mark of a paste: takes everything up to its end. */
static unsigned char take_paste(EditLine *el, int ch)
{
    static const wchar_t end[] = L"\033[201~";
    const size_t n_end = sizeof end / sizeof *end - 1;
    wchar_t *text = NULL, c;
    size_t n = 0, cap = 0;
    (void)ch;
    while (n < PASTE_MAX && el_wgetc(el, &c) == 1) {
        void *p = text;
        if (!mem_grow(&p, &cap, n + 2, sizeof *text)) break;
        text = p;
        text[n++] = c == L'\r' ? L'\n' : c;
        if (n >= n_end && wmemcmp(text + n - n_end, end, n_end) == 0) {
            n -= n_end;
            break;
        }
    }
    if (text) {
        text[n] = 0;
        el_winsertstr(el, text);
    }
    mem_free(text);
    return CC_REFRESH;
}

/* Ctrl-C, which is a key like others while a line is written: the line goes. */
static unsigned char drop_line(EditLine *el, int ch)
{
    const LineInfoW *line = el_wline(el);
    (void)ch;
    el_cursor(el, (int)(line->lastchar - line->cursor));
    fputs("^C\n", stdout);
    fflush(stdout);
    el_deletestr(el, (int)(line->lastchar - line->buffer));
    dropped = true;
    return CC_NEWLINE;
}

/* Ctrl-Z, a key like others too: the program stops as any other does, and shows its line again when it goes on. */
static unsigned char stop_program(EditLine *el, int ch)
{
    (void)ch;
    ask_for_marks(false);
    el_set(el, EL_PREP_TERM, 0);
    fputc('\n', stdout);
    fflush(stdout);
    kill(0, SIGTSTP);
    el_set(el, EL_PREP_TERM, 1);
    ask_for_marks(true);
    return CC_REDISPLAY;
}

/* ~/.local/state/inferflow/history, or what XDG_STATE_HOME says; folders are made. */
static void find_history(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char folder[PATH_BYTES - 16];
    int n = state && *state ? snprintf(folder, sizeof folder, "%s/inferflow", state)
                            : snprintf(folder, sizeof folder, "%s/.local/state/inferflow", home ? home : "");
    if (n < 0 || (size_t)n >= sizeof folder || (!home && !state)) return;
    for (char *p = folder + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(folder, 0700);
        *p = '/';
    }
    if (mkdir(folder, 0700) == 0 || errno == EEXIST) snprintf(history_path, sizeof history_path, "%s/history", folder);
}

static void open_editor(void)
{
    HistEvent ev;
    editor = el_init("inferflow", stdin, stdout, stderr);
    past = history_init();
    if (!editor || !past) return;
    history(past, &ev, H_SETSIZE, HISTORY_LINES);
    history(past, &ev, H_SETUNIQUE, 1);
    find_history();
    if (*history_path) history(past, &ev, H_LOAD, history_path);
    el_set(editor, EL_PROMPT, give_prompt);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_HIST, history, past);
    el_wset(editor, EL_ADDFN, L"paste", L"takes a paste", take_paste); /* el_set would copy the texts and keep them */
    el_set(editor, EL_BIND, "\033[200~", "paste", NULL);
    el_wset(editor, EL_ADDFN, L"drop", L"drops the line", drop_line);
    el_set(editor, EL_BIND, "^C", "drop", NULL);
    el_wset(editor, EL_ADDFN, L"stop", L"stops the program", stop_program);
    el_set(editor, EL_BIND, "^Z", "stop", NULL);
    el_set(editor, EL_SETTY, "-d", "-isig", NULL);
}

char *line_read(const char *prompt)
{
    int n = 0;
    HistEvent ev;
    if (!editor) open_editor();
    if (!editor || !past) return NULL;
    shown_prompt = prompt;
    dropped = false;
    el_set(editor, EL_PREP_TERM, 1); /* before the prompt: else a Ctrl-D that comes at once is lost */
    ask_for_marks(true);
    const char *line = el_gets(editor, &n);
    ask_for_marks(false);
    if (dropped) return mem_str("");
    if (!line || n <= 0) return NULL;
    if (*line != '\n') history(past, &ev, H_ENTER, line);
    return mem_strn(line, (size_t)n - (line[n - 1] == '\n'));
}

bool line_dropped(void) { return dropped; }

void line_close(void)
{
    HistEvent ev;
    if (past && *history_path) history(past, &ev, H_SAVE, history_path);
    if (past) history_end(past);
    if (editor) el_end(editor);
    past = NULL;
    editor = NULL;
}

#else

char *line_read(const char *prompt)
{
    char *line = NULL;
    size_t cap = 0;
    fputs(prompt, stdout);
    fflush(stdout);
    ssize_t n = getline(&line, &cap, stdin);
    char *out = n < 0 ? NULL : mem_strn(line, (size_t)n - (n && line[n - 1] == '\n'));
    free(line);
    return out;
}

bool line_dropped(void) { return false; }

void line_close(void) {}

#endif

void line_free(char *line) { mem_free(line); }
