/* distance_buckets.h - relative positions in buckets (Raffel et al. 2019, arXiv 1910.10683, section 2.1): a near
 * distance has a bucket of its own, far ones share buckets by their logarithm, and from `farthest` on the last. */
#pragma once
#include <stdbool.h>

/* What is wrong with the numbers, or NULL. */
const char *buckets_check(int n, int farthest, bool both_ways);
/* The bucket of a key `distance` after the query (negative: before it). both_ways: later keys have the upper half of
 * the buckets; else they count as distance 0. In float32, as models are trained. */
int bucket_of(int distance, int n, int farthest, bool both_ways);

/* Signed logarithmic distances (DeBERTa v2). A distance up to n / 2 stays as it is; a larger one is mapped by its
 * logarithm, so that `farthest` - 1 becomes about n. log_places_check returns why n and `farthest` do not fit, or
 * NULL. */
const char *log_places_check(int n, int farthest);
int log_place_of(int distance, int n, int farthest);
