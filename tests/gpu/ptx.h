/* ptx.h - a PTX text as read: variables, functions, instructions with their operands.
 *
 * Names of registers, of parameters and of labels are resolved while reading; what needs addresses (symbols) or
 * the layout of frames waits for ptx_program.c. Source: PTX ISA 9.0. Whatever is not known ends the process with a
 * message that names the line and the text: a lenient reader would make a wrong judge.
 *
 * Of hundreds of kernels a run needs some twenty, so the body of a kernel is read when it is needed. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PTX_OPERANDS = 10 };

typedef enum { SPACE_GENERIC, SPACE_GLOBAL, SPACE_CONST, SPACE_SHARED, SPACE_LOCAL, SPACE_PARAM } ptx_space;

/* What a register is declared as decides its bytes: 1 stands for a predicate. */
typedef enum {
    OPERAND_REGISTER,
    OPERAND_SPECIAL, /* %tid.x ...: name */
    OPERAND_INTEGER, /* value */
    OPERAND_FLOAT,   /* value: the bits of a double, or of a float when bytes is 4 */
    OPERAND_SYMBOL,  /* name, value: offset; a label, a function or a variable */
    OPERAND_ADDRESS, /* [part[0] + value] */
    OPERAND_VECTOR,  /* {part...} */
    OPERAND_PAIR,    /* part[0]|part[1] */
    OPERAND_SINK,    /* _ */
    OPERAND_LIST,    /* (part...): arguments of a call */
} ptx_operand_kind;

typedef struct ptx_operand {
    ptx_operand_kind kind;
    bool negated; /* !%p */
    int bytes;    /* of a register: 1 predicate, 2, 4, 8 */
    int slot;     /* of a register: its place in the function's frame */
    int64_t value;
    char *name;
    int n;
    struct ptx_operand *part;
} ptx_operand;

typedef struct ptx_line {
    char *op;  /* with its modifiers: "ld.global.v4.u32" */
    int line;  /* of the text */
    int scope; /* where its label is looked up */
    int guard; /* slot of the predicate, or -1 */
    bool guard_not;
    int n;
    ptx_operand o[PTX_OPERANDS];
} ptx_line;

/* One element of an initializer. */
typedef struct ptx_value {
    uint64_t bits;
    char *symbol; /* NULL: bits are the value; else bits are added to its address */
    int shift;    /* a byte of an address: how far it is shifted right */
} ptx_value;

typedef struct ptx_variable {
    char *name;
    ptx_space space;
    int64_t bytes, align, element;
    bool dynamic; /* .extern .shared without length */
    int scope;    /* in a function; -1: of the module */
    int n_value;
    ptx_value *value;
    int64_t at; /* offset in its frame or window; for .global and .const its device address */
} ptx_variable;

typedef struct ptx_label {
    char *name;
    int scope, at; /* index of the instruction that follows */
    int n_target;  /* of .branchtargets: names of labels */
    char **target;
} ptx_label;

typedef struct ptx_function {
    char *name;
    bool entry, body; /* body: false for a declaration */
    int n_param, n_result, n_variable, n_line, n_label, n_scope;
    ptx_variable *param, *result; /* in this order from offset 0 of the frame or of the launch's parameters */
    ptx_variable *variable;       /* .local, .shared and .param of the body */
    ptx_line *lines;
    ptx_label *label;
    int *scope_parent;
    int slots;            /* registers, in words of a lane */
    int64_t param_bytes;  /* parameters and results */
    int64_t local_bytes;  /* of the frame: param_bytes when it is a function, .local, .param of calls */
    int64_t shared_bytes; /* .shared of the body */
    const char *later;    /* where a body begins that is not read yet, in line later_line */
    int later_line;
    int max_threads; /* .maxntid, 0: not told */
} ptx_function;

typedef struct ptx_module {
    char *text;
    int target; /* 80 for sm_80 */
    bool whole; /* every body is read */
    int n_variable, n_function;
    ptx_variable *variable;
    ptx_function *function;
} ptx_module;

/* Reads a copy of text, with every body or without those that can wait; for ptx_free. */
ptx_module *ptx_parse(const char *text, bool whole);
/* Reads the body of a function that has waited. */
void ptx_read_later(ptx_function *f);
void ptx_free(ptx_module *m);

/* The function of that name that has a body, or -1. */
int ptx_find_function(const ptx_module *m, const char *name);
