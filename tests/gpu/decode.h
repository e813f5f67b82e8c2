/* decode.h - from an operation's name and operands to instructions that run.
 *
 * A file of operations with operands of their own kind decodes them with these; decode.c knows the plain ones. Every
 * modifier has to be taken: what is left over ends the process. */
#pragma once
#include "tests/gpu/lanes.h"
#include "tests/gpu/ptx_program.h"

enum { DECODE_WORDS = 16 };

typedef struct decoder {
    program *p;
    int function;
    const ptx_line *l;
    int n_temp; /* rows of passing values in use by this line */
    int n_word;
    char word[DECODE_WORDS][48]; /* the name, divided at its dots */
    bool taken[DECODE_WORDS];
} decoder;

_Noreturn void decode_stop(const decoder *d, const char *why);
/* Takes the modifier; false where it is not there. */
bool decode_word(decoder *d, const char *word);
/* The index of the one of list (which ends with NULL) that is there, or -1. */
int decode_one_of(decoder *d, const char *const *list);
/* Takes the last modifier, a type; its bytes. */
const char *decode_type(decoder *d, int *bytes);
/* Ends the process where a modifier has not been taken, or where there are not from least to most operands. */
void decode_end(const decoder *d, int least, int most);

/* The next instruction, with this line's guard; valid until the next one. */
inst *decode_emit(decoder *d, inst_fn *run);
/* The rows of an operand, by a letter of op_row.form. */
int32_t decode_source(decoder *d, const ptx_operand *o, char letter);
int32_t decode_result(decoder *d, const ptx_operand *o, char letter);
int32_t decode_temp(decoder *d, int rows);
int32_t decode_constant(program *p, uint64_t value, bool wide);
/* A list of n rows that lives as long as the program. */
int32_t *decode_rows(program *p, int n);
/* The label that a symbol names, as the index of a line; decode.c makes places in the code of them later. */
const ptx_label *decode_label(const decoder *d, const ptx_operand *o);
/* An operand's number. */
int64_t decode_number(const decoder *d, const ptx_operand *o);
/* The plain operation of that name, or NULL. */
const op_row *decode_find(const char *op);
/* The letter of a register or number of that many bytes. */
char decode_letter(int bytes);

/* Decodes every function of the program whose body is read; one whose body has been read since. */
void decode_program(program *p);
void decode_later(program *p, int f);

/* Of other files: they emit what d names, or return false where the operation is not theirs. */
bool decode_flow(decoder *d);
bool decode_memory(decoder *d);
bool decode_move(decoder *d);
bool decode_warp(decoder *d);
bool decode_matrix(decoder *d);
bool decode_mbarrier(decoder *d);
bool decode_products(decoder *d);
bool decode_copy(decoder *d);
bool decode_atomic(decoder *d);

/* The space that the name tells, and [address] as a row, of 64 bits or of 32, and an offset (ops_memory.c). */
ptx_space decode_space(decoder *d);
void decode_address(decoder *d, const ptx_operand *o, int32_t *at, bool *wide, int64_t *offset);
