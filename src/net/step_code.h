/* step_code.h - a step (core/step.h) as bytes: what a leader sends the devices of nodes before each step.
 *
 *     u32 number | u8 flags | u16 sequences | u32 wanted rows, u16 pooled sequences, u32 rows of vec, u32 copies
 *     each sequence   u32 first position, rows, length; of the encoder rows, length; slots read, written; u8 rows taken
 *                     of those apart, rows kept apart;
 *                     a length for each table of positions (rope_length)
 *     each row        i32 id, i32 type, then those of the encoder
 *     u32 wanted rows (top bit: only the best), u16 pooled sequences, vec as floats, copies as u8 group, u32 from, to
 *     page tables     for each group and sequence what differs from a row of the step before
 *
 * What is all 0, or what the model has not, is left out (flags; limits). A row of a page table is u16 the sequence of
 * the step before that it resembles, plus 1, or 0; u16 number of runs; runs of u16 index, u16 count, i32 pages. In a
 * steady state that is 4 bytes. After a gap, or when the reader is new, the tables are whole.
 *
 * The reader checks everything: rows, positions, pages and slots within the limits, order, every page that a row can
 * see. So what it gives may go to a device. Neither side allocates after opening. */
#pragma once
#include "base/span.h"
#include "core/backend.h"

/* What both sides of a lease know of all its steps. */
typedef struct step_limits {
    int32_t rows[AXIS_COUNT]; /* at most; AXIS_EXP is not used */
    int32_t sequences, ctx, vocab, n_slot, slot_rows, n_used;
    int64_t dim;
    uint32_t n_group, n_rope;
    int32_t n_page[GROUP_MAX], window[GROUP_MAX];
    uint8_t axis[GROUP_MAX]; /* AXIS_TOK, AXIS_ENC */
    bool ids;                /* token ids and vec are sent */
} step_limits;

/* ERR_LIMIT where a message could not have such steps. */
int step_limits_of(step_limits *out, const program *p, const int max_rows[AXIS_COUNT], int sequences, int ctx,
                   const cache_options *cache, err *e);
/* Bytes of a message at most. */
uint64_t step_code_max(const step_limits *l);

typedef struct step_writer step_writer;
int step_writer_open(step_writer **out, const program *p, const step_limits *l, err *e);
void step_writer_close(step_writer *w); /* NULL ok */
/* The next step is written whole: the reader lost one, or is new. */
void step_writer_forget(step_writer *w);
/* *out is valid until the next call. ERR_LIMIT: the step is beyond the limits. Taps are not sent. */
int step_write(step_writer *w, const step *st, span *out, err *e);

typedef struct step_reader step_reader;
/* Keeps `steps` steps. p gives the tables of positions, and takes care of them. */
int step_reader_open(step_reader **out, program *p, const step_limits *l, int steps, err *e);
void step_reader_close(step_reader *r); /* NULL ok */
/* *out is valid until `steps` others were read. ERR_FORMAT: malformed or out of order; the reader is of no more use. */
int step_read(step_reader *r, span payload, const step **out, err *e);
