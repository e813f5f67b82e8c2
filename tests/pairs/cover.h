/* cover.h - rows of option values in which every two values of two options meet, for options that may refuse each
 * other.
 *
 * A row gives each option one of its values; value 0 is "not given". Rows are made greedily, one pair that has not met
 * at a time. What a program refuses together (or alone) is told as a refusal: no later row holds it, and its pairs
 * count as met, because they were tried. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { COVER_OPTIONS_MAX = 160, COVER_VALUES_MAX = 12, COVER_REFUSAL_MAX = 3 };

typedef struct cover_pick {
    int option, value;
} cover_pick;

/* Values that are refused together. */
typedef struct cover_refusal {
    int n;
    cover_pick pick[COVER_REFUSAL_MAX];
} cover_refusal;

typedef struct cover {
    int n_options, n_values[COVER_OPTIONS_MAX], first[COVER_OPTIONS_MAX + 1];
    uint8_t *met; /* [first[n_options]][first[n_options]] */
    cover_refusal *refusals;
    int n_refusals, cap_refusals;
    uint64_t random;
} cover;

/* `n_values[i]` counts "not given" too. false: no memory. cover_close it. */
bool cover_open(cover *c, int n_options, const int *n_values);
void cover_close(cover *c);
/* The next row of n_options values, and the pair for which it was made; false: every pair has met. */
bool cover_next(cover *c, uint8_t *row, cover_pick pair[2]);
/* The row was run: its pairs have met. */
void cover_meet(cover *c, const uint8_t *row);
/* The picks (1 to COVER_REFUSAL_MAX) are refused together, whatever else is given. */
bool cover_refuse(cover *c, const cover_pick *pick, int n);
/* Takes back that a value is refused for itself: its pairs have not met. */
void cover_allow(cover *c, cover_pick pick);
/* Pairs that have met, and all. */
void cover_count(const cover *c, int64_t *met, int64_t *all);
/* A number below n that follows from the numbers drawn before. */
int cover_draw(cover *c, int n);
