/* ops.h - the tables of operations whose operands need no decoder of their own. Each ends with a row without name. */
#pragma once
#include "tests/gpu/lanes.h"

extern const op_row ops_int[], ops_bits[], ops_float[], ops_half[], ops_compare[], ops_cvt[];

/* What a decoder puts before or behind an instruction: a row to two rows and back, and logic of predicates. */
inst_fn ops_widen, ops_widen_signed, ops_narrow, ops_clock;
inst_fn ops_not_predicate, ops_mov_predicate, ops_and_predicate, ops_or_predicate, ops_xor_predicate;
