/* flags.h - the words of a command line, read by the rows of a command.
 *
 * --key value, --key=value, -k value, -kvalue. A bool flag alone is true, takes a following on|off|true|false, and
 * has --no-key. '-' and '_' in keys are the same; "--" ends the flags; the last of repeated flags wins. "-" alone is
 * an operand. */
#pragma once
#include "app/app.h"
#include "base/buf.h"
#include "models/spec/spec.h"

/* What every command accepts besides its own rows. */
typedef struct common_flags {
    bool help, help_all, json; /* help_all: help, too */
    bool yes;                  /* models of the hub that are not there are downloaded */
    const char *log_level;
} common_flags;

/* Fills v->options (options_size bytes, cleared by the caller), v->operand (argv's own strings, compacted into argv)
 * and *common. argv[0] is the first word after the command's name. ERR_USAGE names the flag. The model and the
 * spec of --spec give other defaults than the rows (settings.h); *over (NULL ok: neither is read) is that spec, to be
 * freed after the command has run. */
int flags_parse(invocation *v, common_flags *common, int argc, char **argv, spec **over, err *e);

/* ERR_USAGE for a flag on the command line that is not in `keys` (NULL ends them): `what` ("bench read") does not
 * use it. */
int flags_allow_only(const invocation *v, const char *const *keys, const char *what, err *e);

/* The rows of group g (0, 1, …) of a command, its own and then those of every command; NULL: it has no such group. */
const param *flags_rows(const command *cmd, size_t g, size_t *n, const char **title);
/* What a line asks for with --help, -h or --help-all, whatever else is wrong in it. */
typedef enum { HELP_NONE, HELP_COMMON, HELP_ALL } help_wanted;
help_wanted flags_help_wanted(int argc, char **words);
/* `inferflow <command> --help`, or (all) --help-all, in lines of at most `width` columns. */
bool flags_help(const command *cmd, bool all, int width, buf *out);
