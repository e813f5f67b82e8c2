/* arithmetic.h - the number of the arithmetic contract: where it is equal, the same model gives the same bits.
 *
 * The contract covers everything from the ids of a text to logits, hidden states, vectors and scores, and the pages of
 * the KV cache: the definition of every op (its reference in cpu/), the order of every sum, the functions of
 * base/fmath.h, the definitions of element types and how values are encoded in them (tensor/), which inputs of matrices
 * are int8 and in what blocks, and the codes of caches. It holds for any batch, chunk, number of threads, instruction
 * set and division over devices. It does not cover how a token is drawn, nor `--exact off`.
 *
 * Whoever changes a bit of that raises the number; tests/t_core_arithmetic.c notices. Peers compare it. */
#pragma once
enum { ARITHMETIC = 1 };
