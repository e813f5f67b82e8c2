/* app.h - the command line: what a sub-command is, and what main does with it.
 *
 * A sub-command is one const struct in src/app/cmd_<name>.c plus one line in cmd_list.h. Its flags are `param` rows
 * in groups; each group fills one struct inside the command's options. Parsing, defaults, ranges, help and
 * suggestions follow from the rows. Flags, settings and checks of outputs read commands, which main hands to them. */
#pragma once
#include "base/err.h"
#include "base/json.h"
#include "base/param.h"
#include "sample/sample.h"

#include <stdbool.h>
#include <stddef.h>

/* Rows that fill the struct at `offset` of the command's options. The count is a pointer: tables are in other files. */
typedef struct flag_group {
    const char *title; /* heading in the help; NULL ends the array */
    const param *rows;
    const size_t *n;
    size_t offset;
} flag_group;

typedef struct invocation invocation;

typedef struct command {
    const char *name;     /* "run" */
    const char *summary;  /* one line for `inferflow --help` */
    const char *operands; /* as the usage line shows them: "show|check FILE|list"; NULL: the command takes none */
    int operand_min, operand_max;
    int first_file;                          /* operands from this one on are spec files that are read; 0: none is */
    bool prints_json;                        /* accepts --json */
    const flag_group *flags;                 /* NULL: none */
    size_t options_size;                     /* of the options struct */
    const char *notes;                       /* paragraphs and examples after the flags in the help, NULL ok */
    int (*run)(const invocation *v, err *e); /* ERR_USAGE ends in exit status 2, other errors in 1 */
} command;

extern const command *const command_all[]; /* COMMAND_LIST of cmd_list.h, closed by NULL */

enum { GIVEN_MAX = 64, HUB_MODELS_MAX = 4 };

/* One call of a command, flags parsed. */
struct invocation {
    const command *cmd;
    void *options;  /* the command's options struct, defaults filled in */
    char **operand; /* what was no flag, in order */
    int n_operand;
    bool json;                     /* --json */
    const param *given[GIVEN_MAX]; /* rows of the flags on the command line */
    size_t n_given;
    const char *sample_source[SAMPLE_PARAM_N]; /* what set a sampling parameter before the flags; NULL: nothing */
    struct {
        const char *name; /* as it was given, "ORG/NAME" */
        char *path;
    } hub[HUB_MODELS_MAX]; /* models of the hub that flags name (hub_models.h) */
    size_t n_hub;
};

/* Everything from argv to the exit status: 0 done, 1 failed, 2 wrong usage. */
int app_main(int argc, char **argv);

/* Prints one JSON value and a newline on standard output. */
int app_print_json(const json *j, err *e);

/* A group for the flags of every command that runs a model; `member` is an engine_options. Needs engine/engine.h. */
#define MODEL_FLAGS(type, member)                                                                                      \
    {                                                                                                                  \
        "Model", engine_param_rows, &engine_param_count, offsetof(type, member)                                        \
    }
/* Flags of commands that open a model but run nothing; of those that need its tokenizer only. */
#define PROGRAM_FLAGS(type, member)                                                                                    \
    {                                                                                                                  \
        "Model", engine_param_rows, &engine_program_param_count, offsetof(type, member)                                \
    }
#define SOURCE_FLAGS(type, member)                                                                                     \
    {                                                                                                                  \
        "Model", engine_param_rows, &engine_source_param_count, offsetof(type, member)                                 \
    }
