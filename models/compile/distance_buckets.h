/* distance_buckets.h - relative positions in buckets (Raffel et al. 2019, arXiv 1910.10683, section 2.1): a near
 * distance has a bucket of its own, far ones share buckets by their logarithm, and from `farthest` on the last. */
#pragma once
#include <stdbool.h>

/* What is wrong with the numbers, or NULL. */
const char *buckets_check(int n, int farthest, bool both_ways);
/* The bucket of a key `distance` after the query (negative: before it). both_ways: later keys have the upper half of
 * the buckets; else they count as distance 0. In float32, as models are trained. */
int bucket_of(int distance, int n, int farthest, bool both_ways);

/* The same idea with a sign (DeBERTa v2): distances up to n / 2 are themselves, larger ones grow by their logarithm,
 * `farthest` - 1 to about n. log_places_check: what is wrong with the numbers, or NULL. */
const char *log_places_check(int n, int farthest);
int log_place_of(int distance, int n, int farthest);
