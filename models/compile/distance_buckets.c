/* distance_buckets.c - see distance_buckets.h. The operations have the order of the models' own code, since float32
 * rounding decides where a distance on the edge of a bucket goes. */
#include "models/compile/distance_buckets.h"

#include <math.h>
#include <stddef.h>

const char *buckets_check(int n, int farthest, bool both_ways)
{
    int side = both_ways ? n / 2 : n;
    if (side < 2 || (both_ways && n % 2)) return "the buckets must be two at least, on each side";
    return farthest > side / 2 ? NULL
                               : "the farthest distance (relative_attention_max_distance) has a bucket of its own";
}

int bucket_of(int distance, int n, int farthest, bool both_ways)
{
    int side = both_ways ? n / 2 : n, near = side / 2, first = both_ways && distance > 0 ? side : 0;
    int d = both_ways && distance > 0 ? distance : distance < 0 ? -distance : 0;
    if (d < near) return first + d;
    if (d >= farthest) return first + side - 1;
    float share = logf((float)d / (float)near) / (float)log((double)farthest / near);
    int far = near + (int)(share * (float)(side - near));
    return first + (far < side ? far : side - 1);
}

const char *log_places_check(int n, int farthest)
{
    if (n < 2) return "buckets must be two at least";
    return farthest - 1 > n / 2
               ? NULL
               : "farthest (max_relative_positions, max_position_embeddings) must be above buckets / 2 + 1";
}

int log_place_of(int distance, int n, int farthest)
{
    const int near = n / 2, d = distance < 0 ? -distance : distance;
    if (d <= near) return distance;
    const float share = logf((float)d / (float)near) / logf((float)((double)(farthest - 1) / near));
    const int far = (int)ceilf(share * (float)(near - 1)) + near;
    return distance < 0 ? -far : far;
}
