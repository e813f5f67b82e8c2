/* layout.c - see layout.h. */
#include "plan/layout.h"

#include <stdlib.h>

/* A layout while it is made: the devices of each group, with the layers of the group and the share of each device. */
typedef struct draft {
    int n_group, n; /* devices: those of group 0, then those of group 1, … */
    int group[LAYOUT_DEVICES], device[LAYOUT_DEVICES];
    double layers[LAYOUT_DEVICES], share[LAYOUT_DEVICES]; /* of a group; of a device in its group, in all 1 */
} draft;

static void add_device(draft *d, int group, int device)
{
    d->group[d->n] = group;
    d->device[d->n++] = device;
    if (group >= d->n_group) d->n_group = group + 1;
}

/* The devices of a group: [*from, *to). */
static void find_group(const draft *d, int group, int *from, int *to)
{
    *from = 0;
    while (*from < d->n && d->group[*from] != group) ++*from;
    *to = *from;
    while (*to < d->n && d->group[*to] == group) ++*to;
}

/* Ranks end together when each has columns in proportion to its speed. */
static void divide_group(draft *d, const layout_task *t, int group)
{
    int from, to;
    double sum = 0;
    find_group(d, group, &from, &to);
    for (int i = from; i < to; i++) sum += 1 / t->device[d->device[i]].crowded;
    for (int i = from; i < to; i++) d->share[i] = 1 / t->device[d->device[i]].crowded / sum;
}

static bool fits(const draft *d, const layout_task *t)
{
    bool all = true;
    for (int i = 0; i < d->n; i++)
        all = all && d->share[i] * d->layers[d->group[i]] * t->layer_bytes <= (double)t->device[d->device[i]].bytes;
    return all;
}

/* Seconds until so many bytes have gone from one device to another. */
static double travel(const layout_task *t, int a, int b, double bytes)
{
    return a == b ? 0 : t->handling + t->delay[a][b] + (t->rate[a][b] > 0 ? bytes / t->rate[a][b] : 0);
}

static double longest_travel(const layout_task *t, const draft *d, int g, int h, double bytes)
{
    int a0, a1, b0, b1;
    double most = 0;
    find_group(d, g, &a0, &a1);
    find_group(d, h, &b0, &b1);
    for (int a = a0; a < a1; a++)
        for (int b = b0; b < b1; b++) {
            const double seconds = travel(t, d->device[a], d->device[b], bytes);
            most = seconds > most ? seconds : most;
        }
    return most;
}

static double layer_seconds(const layout_task *t, const draft *d, int group)
{
    int from, to;
    double most = 0;
    find_group(d, group, &from, &to);
    for (int i = from; i < to; i++) {
        const layout_device *x = &t->device[d->device[i]];
        const double seconds = d->share[i] * (to - from > 1 ? x->crowded : x->layer);
        most = seconds > most ? seconds : most;
    }
    const double each = t->exchanges ? t->exchange_bytes / t->exchanges : 0;
    return to - from > 1 ? most + t->exchanges * longest_travel(t, d, group, group, each) : most;
}

/* Between the process that leads and the farthest rank of a group. */
static double home_travel(const layout_task *t, const draft *d, int group)
{
    int from, to;
    double most = 0;
    find_group(d, group, &from, &to);
    for (int i = from; i < to; i++) {
        const double seconds = travel(t, 0, d->device[i], t->row_bytes);
        most = seconds > most ? seconds : most;
    }
    return most;
}

/* From the process that leads through all groups, and back. */
static double token_seconds(const layout_task *t, const draft *d)
{
    double sum = home_travel(t, d, 0) + home_travel(t, d, d->n_group - 1);
    for (int g = 0; g < d->n_group; g++) sum += d->layers[g] * layer_seconds(t, d, g);
    for (int g = 1; g < d->n_group; g++) sum += longest_travel(t, d, g - 1, g, t->row_bytes);
    return sum;
}

/* The share of a rank: its part of the group times the group's layers. */
static void write_draft(buf *out, const layout_task *t, const draft *d)
{
    for (int i = 0; i < d->n; i++) {
        const bool begins = i == 0 || d->group[i] != d->group[i - 1];
        const double share = d->share[i] * d->layers[d->group[i]];
        if (i) buf_str(out, begins ? ";" : "&");
        buf_str(out, t->device[d->device[i]].name);
        if (d->n > 1) buf_printf(out, "*%.3g", share);
    }
}

static void add_layout(layout out[LAYOUTS_MAX], int *n, const layout_task *t, const draft *d, int kind)
{
    if (*n < 0 || *n == LAYOUTS_MAX || !d->n || !fits(d, t)) return;
    layout *to = &out[*n];
    *to = (layout){.kind = kind, .token = token_seconds(t, d)};
    write_draft(&to->devices, t, d);
    ++*n;
}

/* Devices by what a layer takes there, the fastest first. */
static void sort_devices(const layout_task *t, bool crowded, int order[LAYOUT_DEVICES])
{
    for (int i = 0; i < t->n_device; i++) {
        int k = i;
        const layout_device *x = &t->device[i];
        for (; k > 0; k--) {
            const layout_device *y = &t->device[order[k - 1]];
            if ((crowded ? y->crowded : y->layer) <= (crowded ? x->crowded : x->layer)) break;
            order[k] = order[k - 1];
        }
        order[k] = i;
    }
}

/* Each device as full as it can be, those from `first` of the order on. The groups stand in the order of the task. */
static void add_filled(layout out[LAYOUTS_MAX], int *n, const layout_task *t, const int *order, int first)
{
    double layers[LAYOUT_DEVICES] = {0};
    int left = t->layers;
    draft d = {0};
    for (int k = first; k < t->n_device && left; k++) {
        const double room = (double)t->device[order[k]].bytes / t->layer_bytes;
        const int more = room < left ? (int)room : left;
        layers[order[k]] = more;
        left -= more;
    }
    for (int i = 0; i < t->n_device && !left; i++) {
        if (layers[i] == 0) continue;
        d.layers[d.n] = layers[i];
        d.share[d.n] = 1;
        add_device(&d, d.n, i);
    }
    add_layout(out, n, t, &d, LAYOUT_FILLED);
}

static void add_ranks(layout out[LAYOUTS_MAX], int *n, const layout_task *t, const int *order, int ranks)
{
    draft d = {.layers = {t->layers}};
    for (int i = 0; i < t->n_device; i++)
        for (int k = 0; k < ranks; k++)
            if (order[k] == i) add_device(&d, 0, i);
    divide_group(&d, t, 0);
    add_layout(out, n, t, &d, LAYOUT_RANKS);
}

/* Neighbours in groups of `ranks`, as many layers each as makes them take equally long. */
static void add_groups(layout out[LAYOUTS_MAX], int *n, const layout_task *t, int first, int ranks)
{
    draft d = {0};
    double sum = 0;
    for (int i = first; i < t->n_device; i++) add_device(&d, (i - first) / ranks, i);
    for (int g = 0; g < d.n_group; g++) {
        divide_group(&d, t, g);
        d.layers[g] = 1 / layer_seconds(t, &d, g);
        sum += d.layers[g];
    }
    for (int g = 0; g < d.n_group; g++) d.layers[g] *= t->layers / sum;
    if (d.n_group <= t->layers) add_layout(out, n, t, &d, LAYOUT_GROUPS);
}

static int by_token(const void *a, const void *b)
{
    const double x = ((const layout *)a)->token, y = ((const layout *)b)->token;
    return (x > y) - (x < y);
}

int layouts_make(layout out[LAYOUTS_MAX], const layout_task *t)
{
    int n = 0, order[LAYOUT_DEVICES];
    sort_devices(t, false, order);
    for (int first = 0; first < t->n_device; first++) add_filled(out, &n, t, order, first);
    sort_devices(t, true, order);
    for (int ranks = 2; ranks <= t->n_device; ranks++) add_ranks(out, &n, t, order, ranks);
    for (int first = 0; first < 2; first++)
        for (int ranks = 1; ranks <= (t->n_device - first) / 2; ranks++)
            if ((t->n_device - first) % ranks == 0) add_groups(out, &n, t, first, ranks);
    bool bad = false;
    for (int i = 0; i < n; i++) bad = bad || out[i].devices.bad;
    if (bad) {
        layouts_free(out, n);
        return -1;
    }
    qsort(out, (size_t)n, sizeof *out, by_token);
    return n;
}

void layouts_free(layout *list, int n)
{
    for (int i = 0; i < n; i++) buf_free(&list[i].devices);
}
