/* cmd_completion.c - `inferflow completion bash|zsh|fish`: completion for a shell, made from the tables of commands and
 * flags. Words come after flags that take one, else files; the first word is a command. */
#include "app/flags.h"

#include <stdio.h>
#include <string.h>

/* Calls fn for every flag of a command. */
static void each_flag(buf *out, const command *c, void (*fn)(buf *out, const command *c, const param *p))
{
    size_t n;
    const char *title;
    const param *rows;
    for (size_t g = 0; (rows = flags_rows(c, g, &n, &title)); g++)
        for (size_t i = 0; i < n; i++) fn(out, c, &rows[i]);
}

static void add_name(buf *out, const char *name)
{
    buf_str(out, name[1] ? "--" : "-");
    for (; *name; name++) buf_byte(out, *name == '_' ? '-' : (uint8_t)*name);
}

/* A text between single quotes; `escape`: characters that the shell's own syntax there takes with a backslash. */
static void add_quoted(buf *out, const char *text, const char *escape)
{
    for (; *text; text++) {
        if (*text == '\'') buf_str(out, "'\\''");
        else if (strchr(escape, *text)) buf_printf(out, "\\%c", *text);
        else buf_byte(out, (uint8_t)*text);
    }
}

/* "a|b|c" → "a b c". */
static void add_words(buf *out, const char *words)
{
    for (; *words; words++) buf_byte(out, *words == '|' ? ' ' : (uint8_t)*words);
}

/* The words that operands such as "show [FILE]|derive|check FILE" or "[read|link]" begin with, each after a blank.
 * False: there is no choice. */
static bool add_word_operands(buf *out, const command *c)
{
    const char *at = c->operands && strchr(c->operands, '|') ? c->operands : NULL;
    for (bool more = at != NULL; more; at++) {
        at += *at == '[';
        const size_t n = strcspn(at, " |]");
        buf_byte(out, ' ');
        buf_add(out, at, n);
        at += strcspn(at, "|");
        more = *at;
    }
    return at != NULL;
}

/* Whether a file may follow the word. */
static bool files_follow(const command *c) { return c->operand_max > 1; }

/* ---- bash */

static void add_bash_flag(buf *out, const command *c, const param *p)
{
    (void)c;
    buf_byte(out, ' ');
    add_name(out, p->key);
    if (!p->alias) return;
    buf_byte(out, ' ');
    add_name(out, p->alias);
}

static void add_bash_words(buf *out, const command *c, const param *p)
{
    if (!param_has_words(p)) return;
    const char *name[] = {p->key, p->alias};
    for (int i = 0; i < 2 && name[i]; i++) {
        buf_printf(out, "%s'%s ", i ? "|" : "    ", c->name);
        add_name(out, name[i]);
        buf_byte(out, '\'');
    }
    buf_str(out, ") words='");
    add_words(out, p->words);
    buf_str(out, "' ;;\n");
}

/* "--flag=value" comes as one word or, where '=' parts words, as three. */
static void write_bash(buf *out)
{
    buf_str(out, "_inferflow() {\n"
                 "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words= before=\n"
                 "  COMPREPLY=()\n"
                 "  if [ \"$prev\" = = ]; then prev=${COMP_WORDS[COMP_CWORD-2]}\n"
                 "  elif [ \"$cur\" = = ]; then cur=\n"
                 "  elif [[ $cur == --*=* ]]; then prev=${cur%%=*} before=${cur%%=*}= cur=${cur#*=}; fi\n"
                 "  local commands='");
    for (const command *const *c = command_all; *c; c++) buf_printf(out, "%s ", (*c)->name);
    buf_str(out, "'\n  if [ \"$COMP_CWORD\" -eq 1 ]; then words=\"$commands help --help --version\"\n"
                 "  elif [ \"${COMP_WORDS[1]}\" = help ]; then words=\"$commands --all\"\n"
                 "  else\n    case \"${COMP_WORDS[1]} $prev\" in\n");
    for (const command *const *c = command_all; *c; c++) each_flag(out, *c, add_bash_words);
    for (const command *const *c = command_all; *c; c++) {
        buf words = {0};
        if (add_word_operands(&words, *c))
            buf_printf(out, "    '%s %s') words='%s' ;;\n", (*c)->name, (*c)->name, buf_cstr(&words));
        out->bad |= words.bad;
        buf_free(&words);
    }
    buf_str(out, "    esac\n    if [ -z \"$words\" ] && [[ $cur == -* ]]; then\n      case ${COMP_WORDS[1]} in\n");
    for (const command *const *c = command_all; *c; c++) {
        buf_printf(out, "      %s) words='", (*c)->name);
        each_flag(out, *c, add_bash_flag);
        buf_str(out, "' ;;\n");
    }
    buf_str(out,
            "      esac\n    fi\n  fi\n"
            "  if [ -n \"$words\" ]; then mapfile -t COMPREPLY < <(compgen -P \"$before\" -W \"$words\" -- \"$cur\")\n"
            "  else mapfile -t COMPREPLY < <(compgen -P \"$before\" -f -- \"$cur\")\n"
            "    compopt -o filenames 2>/dev/null\n"
            "  fi\n}\ncomplete -F _inferflow inferflow\n");
}

/* ---- zsh */

static void add_zsh_name(buf *out, const param *p, const char *name)
{
    buf_str(out, "      '");
    add_name(out, name);
    if (p->type != PARAM_BOOL) buf_byte(out, name[1] ? '=' : '+'); /* the value may stand in the same word */
    buf_byte(out, '[');
    add_quoted(out, p->doc ? p->doc : "", "[]\\");
    buf_byte(out, ']');
    if (param_has_words(p)) {
        buf_str(out, ":word:(");
        add_words(out, p->words);
        buf_byte(out, ')');
    } else if (p->type != PARAM_BOOL) {
        buf_str(out, ":value:_files");
    }
    buf_str(out, "' \\\n");
}

static void add_zsh_flag(buf *out, const command *c, const param *p)
{
    (void)c;
    add_zsh_name(out, p, p->key);
    if (p->alias) add_zsh_name(out, p, p->alias);
}

static void write_zsh(buf *out)
{
    buf_str(out, "#compdef inferflow\n"
                 "_inferflow() {\n"
                 "  local -a commands\n"
                 "  if (( CURRENT == 2 )) || [[ $words[2] == help ]]; then\n    commands=(\n");
    for (const command *const *c = command_all; *c; c++) {
        buf_printf(out, "      '%s:", (*c)->name);
        add_quoted(out, (*c)->summary, "\\");
        buf_str(out, "'\n");
    }
    buf_str(out, "    )\n    _describe command commands\n    return\n  fi\n"
                 "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n");
    for (const command *const *c = command_all; *c; c++) {
        buf_printf(out, "    %s) _arguments \\\n", (*c)->name);
        each_flag(out, *c, add_zsh_flag);
        buf words = {0};
        const bool choice = add_word_operands(&words, *c);
        if (choice) buf_printf(out, "      '1:word:(%s)'", buf_cstr(&words) + 1);
        if (choice && files_follow(*c)) buf_str(out, " \\\n");
        if (!choice || files_follow(*c)) buf_str(out, "      '*:file:_files'");
        buf_str(out, " ;;\n");
        out->bad |= words.bad;
        buf_free(&words);
    }
    buf_str(out, "  esac\n}\nif [ \"$funcstack[1]\" = _inferflow ]; then _inferflow \"$@\"; "
                 "else compdef _inferflow inferflow; fi\n");
}

/* ---- fish */

static void add_fish_flag(buf *out, const command *c, const param *p)
{
    buf_printf(out, "complete -c inferflow -n '__fish_seen_subcommand_from %s'", c->name);
    const char *name[] = {p->key, p->alias};
    for (int i = 0; i < 2 && name[i]; i++) {
        buf_str(out, name[i][1] ? " -l " : " -s ");
        for (const char *k = name[i]; *k; k++) buf_byte(out, *k == '_' ? '-' : (uint8_t)*k);
    }
    buf_str(out, " -d '");
    for (const char *d = p->doc ? p->doc : ""; *d; d++) {
        if (*d == '\'' || *d == '\\') buf_byte(out, '\\');
        buf_byte(out, (uint8_t)*d);
    }
    buf_byte(out, '\'');
    if (param_has_words(p)) {
        buf_str(out, " -x -a '");
        add_words(out, p->words);
        buf_byte(out, '\'');
    } else if (p->type != PARAM_BOOL) {
        buf_str(out, " -r");
    }
    buf_byte(out, '\n');
}

static void write_fish(buf *out)
{
    for (const command *const *c = command_all; *c; c++) {
        buf_printf(out, "complete -c inferflow -n __fish_use_subcommand -x -a %s -d \"", (*c)->name);
        for (const char *s = (*c)->summary; *s; s++) {
            if (strchr("\"\\$", *s)) buf_byte(out, '\\');
            buf_byte(out, (uint8_t)*s);
        }
        buf_str(out, "\"\n");
        each_flag(out, *c, add_fish_flag);
        buf words = {0};
        if (add_word_operands(&words, *c))
            buf_printf(out, "complete -c inferflow -n '__fish_seen_subcommand_from %s' %s '%s'\n", (*c)->name,
                       files_follow(*c) ? "-a" : "-x -a", buf_cstr(&words) + 1);
        out->bad |= words.bad;
        buf_free(&words);
    }
    buf_str(out, "complete -c inferflow -n __fish_use_subcommand -x -a help -d \"the flags of a command\"\n"
                 "complete -c inferflow -n '__fish_seen_subcommand_from help' -l all -d 'all flags'\n"
                 "complete -c inferflow -n '__fish_seen_subcommand_from help' -x -a '");
    for (const command *const *c = command_all; *c; c++) buf_printf(out, "%s ", (*c)->name);
    buf_str(out, "'\n");
}

static int run_completion(const invocation *v, err *e)
{
    buf b = {0};
    const char *shell = v->operand[0];
    int rc = OK;
    if (strcmp(shell, "bash") == 0) write_bash(&b);
    else if (strcmp(shell, "zsh") == 0) write_zsh(&b);
    else if (strcmp(shell, "fish") == 0) write_fish(&b);
    else rc = err_set(e, ERR_USAGE, "completion: \"%.40s\" is no shell that is known: bash, zsh or fish", shell);
    if (!rc && b.bad) rc = err_memory(e, NULL);
    if (!rc) fwrite(b.p, 1, b.n, stdout);
    buf_free(&b);
    return rc;
}

const command command_completion = {
    .name = "completion",
    .summary = "completion of commands and flags for a shell",
    .operands = "bash|zsh|fish",
    .operand_min = 1,
    .operand_max = 1,
    .run = run_completion,
    .notes = "  source <(inferflow completion bash)\n",
};
