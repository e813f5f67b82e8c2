/* plan_choices.h - the run options of a plan: how devices join, what passes between them, how exactly they compute.
 *
 * Their rows fill them from flags, write and read them where a leader asks a node for a rank (net/lease_msg.h), and
 * tell them to fingerprints. They are parsed once; who needs one takes the struct. Zero is the default of each. */
#pragma once
#include "base/param.h"
#include "comm/coll_list.h"
#include "tensor/wire.h"

/* X(id, word): how the ranks of a group join: rows are gathered, or sums are made, coded so (wire_pairs). */
#define REDUCE_LIST(X)                                                                                                 \
    X(EXACT, "exact")                                                                                                  \
    X(F32, "f32")                                                                                                      \
    X(F16, "f16")                                                                                                      \
    X(INT8, "int8")                                                                                                    \
    X(INT6, "int6")                                                                                                    \
    X(INT4, "int4")
#define COLLECTIVE_LIST(X)                                                                                             \
    X(AUTO, "auto")                                                                                                    \
    COLL_REDUCE_LIST(X)
#define EXPERTS_LIST(X)                                                                                                \
    X(COLUMN, "column")                                                                                                \
    X(WHOLE, "whole")
#define ENDS_LIST(X)                                                                                                   \
    X(HOME, "home")                                                                                                    \
    X(AWAY, "away")
#define EXACT_LIST(X)                                                                                                  \
    X(ON, "on")                                                                                                        \
    X(OFF, "off")

#define X(id, ...) REDUCE_##id,
typedef enum { REDUCE_LIST(X) REDUCE_COUNT } reduce_choice;
#undef X
#define X(id, ...) COLLECTIVE_##id,
typedef enum { COLLECTIVE_LIST(X) COLLECTIVE_COUNT } collective_choice;
#undef X
#define X(id, ...) EXPERTS_##id,
typedef enum { EXPERTS_LIST(X) } experts_choice;
#undef X
#define X(id, ...) ENDS_##id,
typedef enum { ENDS_LIST(X) } ends_choice;
#undef X
#define X(id, ...) EXACT_##id,
typedef enum { EXACT_LIST(X) } exact_choice;
#undef X

extern const char *const reduce_words[REDUCE_COUNT];

typedef struct plan_choices {
    reduce_choice reduce;
    collective_choice collective; /* of sums */
    experts_choice experts;       /* of sums: WHOLE: each expert on one rank */
    wire_type wire;               /* of rows between groups: one of WIRE_CHOICE_LIST */
    ends_choice ends;             /* AWAY: tables and head lie with the outer groups, on nodes too */
    exact_choice exact;           /* OFF: weight_options.inexact */
    bool act_f32;                 /* nothing is lowered to int8: as the model is told (--act) */
    int64_t codec_group;          /* elements under one scale; 0: WIRE_GROUP */
    int64_t in_flight;            /* steps under way at most; 0: as many as groups, plus one; of one group 1 */
} plan_choices;

/* Rows for a struct `type_` in which `at` stands before the fields: `choices.`, or nothing. They are parted as help
 * shows them. */
#define PLAN_CHOICE(type_, at, field, kind, ...)                                                                       \
    {                                                                                                                  \
        .key = #field, .type = kind, .offset = offsetof(type_, at field), .rare = true, __VA_ARGS__                    \
    }
#define PLAN_ROWS_OF_DIVISION(type_, at)                                                                               \
    PLAN_CHOICE(type_, at, reduce, PARAM_CHOICE, .otherwise = "exact", .words = CHOICE_WORDS(REDUCE_LIST),             \
                .doc = "tensor parallel (&): exact: an all-gather of rows, with the bits of one device; else an "      \
                       "all-reduce of partial sums in this format (int6: int4, then int8)"),                           \
        PLAN_CHOICE(                                                                                                   \
            type_, at, collective, PARAM_CHOICE, .otherwise = "auto", .words = CHOICE_WORDS(COLLECTIVE_LIST),          \
            .doc = "all-reduce of --reduce: two_step: two hops, fewest bytes; one_shot: one hop; auto: by size; all "  \
                   "give equal results but ring, whose results depend on the batch: it is for comparison"),            \
        PLAN_CHOICE(                                                                                                   \
            type_, at, experts, PARAM_CHOICE, .otherwise = "column", .words = CHOICE_WORDS(EXPERTS_LIST),              \
            .doc = "with --reduce: column: each device has some columns of every expert; whole: each has some "        \
                   "experts (expert parallel)"),                                                                       \
        PLAN_CHOICE(type_, at, wire, PARAM_CHOICE, .otherwise = "f32", .words = CHOICE_WORDS(WIRE_CHOICE_LIST),        \
                    .doc = "format of hidden states between pipeline stages (;); f32 keeps them exactly"),             \
        PLAN_CHOICE(                                                                                                   \
            type_, at, ends, PARAM_CHOICE, .keeps_bits = true, .otherwise = "home", .words = CHOICE_WORDS(ENDS_LIST),  \
            .doc = "embedding and output head: home: on the leader; away: on the nodes of the first and the last "     \
                   "stage"),                                                                                           \
        PLAN_CHOICE(type_, at, codec_group, PARAM_INT, .otherwise = "128", .min = WIRE_GROUP_MIN,                      \
                    .max = WIRE_GROUP_MAX, .doc = "elements that share a scale in --reduce and --wire")
#define PLAN_ROW_OF_KERNELS(type_, at)                                                                                 \
    PLAN_CHOICE(type_, at, exact, PARAM_CHOICE, .otherwise = "on", .words = CHOICE_WORDS(EXACT_LIST),                  \
                .doc = "on: deterministic: the same results on every processor, for any batch, chunk and threads; "    \
                       "off: bfloat16 products for float matrices (AVX-512 BF16), and cuBLAS for prefill on NVIDIA "   \
                       "GPUs: faster; results may differ between processors, and on GPUs between batches")
#define PLAN_ROW_OF_STEPS(type_, at)                                                                                   \
    PLAN_CHOICE(type_, at, in_flight, PARAM_INT, .keeps_bits = true, .min = 1, .max = 64,                              \
                .doc = "micro-batches in flight: steps under way at once, each on another pipeline stage, or waiting " \
                       "for rows of other ranks (default: stages + 1; of one stage 1)")

/* One of them, known by its key, where processes tell it to each other: a number has 4 bytes, what has two values one
 * byte, of more words the word is told, behind its length. False: memory is short. */
bool plan_choice_write(buf *out, const plan_choices *c, const char *key);
/* *from is bad when malformed or out of range; *e is ERR_USAGE where a word is none of this build. */
void plan_choice_read(plan_choices *c, const char *key, cursor *from, err *e);
/* The same as text: "128", "0" or "1", "int8"; of words the default one is "-". */
void plan_choice_tell(buf *out, const plan_choices *c, const char *key);
