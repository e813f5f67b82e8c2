/* cover.c - see cover.h. A row grows from one pair that has not met: options in a drawn order, each gets the value
 * that meets most new ones among what stands, unless a refusal forbids it. The best of several such rows is taken. */
#include "tests/pairs/cover.h"

#include <stdlib.h>
#include <string.h>

enum { TRIES = 6 };

int cover_draw(cover *c, int n)
{
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return (int)(c->random % (uint64_t)n);
}

static int id_of(const cover *c, int option, int value) { return c->first[option] + value; }

static uint8_t *met_at(const cover *c, int a, int va, int b, int vb)
{
    return &c->met[(int64_t)id_of(c, a, va) * c->first[c->n_options] + id_of(c, b, vb)];
}

static void meet(cover *c, int a, int va, int b, int vb) { *met_at(c, a, va, b, vb) = *met_at(c, b, vb, a, va) = 1; }

bool cover_open(cover *c, int n_options, const int *n_values)
{
    *c = (cover){.n_options = n_options, .random = 0x9e3779b97f4a7c15u};
    for (int i = 0; i < n_options; i++) {
        c->n_values[i] = n_values[i];
        c->first[i + 1] = c->first[i] + n_values[i];
    }
    c->met = calloc((size_t)c->first[n_options], (size_t)c->first[n_options]);
    return c->met;
}

void cover_close(cover *c)
{
    free(c->met);
    free(c->refusals);
}

/* Whether a refusal that names option `o` holds in what of the row is set. */
static bool forbidden(const cover *c, const uint8_t *row, const bool *set, int o)
{
    for (int i = 0; i < c->n_refusals; i++) {
        const cover_refusal *r = &c->refusals[i];
        bool names = false, holds = true;
        for (int j = 0; j < r->n; j++) {
            names |= r->pick[j].option == o;
            holds &= set[r->pick[j].option] && row[r->pick[j].option] == r->pick[j].value;
        }
        if (names && holds) return true;
    }
    return false;
}

static int gain_of(const cover *c, const uint8_t *row, const bool *set, int o)
{
    int gain = 0;
    for (int i = 0; i < c->n_options; i++)
        if (i != o && set[i]) gain += !*met_at(c, i, row[i], o, row[o]);
    return gain;
}

/* Fills the options that are not set; returns how many pairs are new. */
static int fill_row(cover *c, uint8_t *row, bool *set)
{
    int order[COVER_OPTIONS_MAX], gain = 0;
    for (int i = 0; i < c->n_options; i++) {
        int at = cover_draw(c, i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    for (int k = 0; k < c->n_options; k++) {
        int o = order[k], best = 0, most = -1;
        if (set[o]) continue;
        set[o] = true;
        for (int v = 0, from = cover_draw(c, c->n_values[o]); v < c->n_values[o]; v++) {
            row[o] = (uint8_t)((v + from) % c->n_values[o]);
            int got = row[o] && forbidden(c, row, set, o) ? -1 : gain_of(c, row, set, o);
            if (got > most) {
                most = got;
                best = row[o];
            }
        }
        row[o] = (uint8_t)best;
        gain += most;
    }
    return gain;
}

/* A pair that has not met, from a drawn place on; one that a refusal forbids counts as met and is passed over. */
static bool find_pair(cover *c, cover_pick pair[2])
{
    uint8_t row[COVER_OPTIONS_MAX];
    bool set[COVER_OPTIONS_MAX] = {false};
    int start = cover_draw(c, c->n_options);
    for (int i = 0; i < c->n_options; i++)
        for (int j = 0; j < c->n_options; j++) {
            int a = (start + i) % c->n_options, b = (start + i + j) % c->n_options;
            if (a == b) continue;
            for (int va = 0; va < c->n_values[a]; va++)
                for (int vb = 0; vb < c->n_values[b]; vb++) {
                    if (*met_at(c, a, va, b, vb)) continue;
                    row[a] = (uint8_t)va;
                    row[b] = (uint8_t)vb;
                    set[a] = set[b] = true;
                    bool never = forbidden(c, row, set, a) || forbidden(c, row, set, b);
                    set[a] = set[b] = false;
                    if (never) {
                        meet(c, a, va, b, vb);
                        continue;
                    }
                    pair[0] = (cover_pick){a, va};
                    pair[1] = (cover_pick){b, vb};
                    return true;
                }
        }
    return false;
}

bool cover_next(cover *c, uint8_t *row, cover_pick pair[2])
{
    int most = -1;
    if (!find_pair(c, pair)) return false;
    for (int t = 0; t < TRIES; t++) {
        uint8_t made[COVER_OPTIONS_MAX] = {0};
        bool set[COVER_OPTIONS_MAX] = {false};
        for (int i = 0; i < 2; i++) {
            made[pair[i].option] = (uint8_t)pair[i].value;
            set[pair[i].option] = true;
        }
        int gain = fill_row(c, made, set);
        if (gain <= most) continue;
        most = gain;
        memcpy(row, made, (size_t)c->n_options);
    }
    meet(c, pair[0].option, pair[0].value, pair[1].option, pair[1].value); /* asked for once, whatever comes of it */
    return true;
}

void cover_meet(cover *c, const uint8_t *row)
{
    for (int a = 0; a < c->n_options; a++)
        for (int b = a + 1; b < c->n_options; b++) meet(c, a, row[a], b, row[b]);
}

bool cover_refuse(cover *c, const cover_pick *pick, int n)
{
    if (c->n_refusals == c->cap_refusals) {
        int cap = 2 * c->cap_refusals + 16;
        cover_refusal *more = realloc(c->refusals, (size_t)cap * sizeof *more);
        if (!more) return false;
        c->refusals = more;
        c->cap_refusals = cap;
    }
    cover_refusal *r = &c->refusals[c->n_refusals++];
    r->n = n;
    memcpy(r->pick, pick, (size_t)n * sizeof *pick);
    return true;
}

void cover_allow(cover *c, cover_pick pick)
{
    for (int i = 0; i < c->n_refusals; i++) {
        const cover_refusal *r = &c->refusals[i];
        if (r->n == 1 && r->pick[0].option == pick.option && r->pick[0].value == pick.value)
            c->refusals[i--] = c->refusals[--c->n_refusals];
    }
    for (int i = 0; i < c->n_options; i++)
        for (int v = 0; v < c->n_values[i]; v++)
            *met_at(c, i, v, pick.option, pick.value) = *met_at(c, pick.option, pick.value, i, v) = 0;
}

void cover_count(const cover *c, int64_t *met, int64_t *all)
{
    *met = *all = 0;
    for (int a = 0; a < c->n_options; a++)
        for (int b = a + 1; b < c->n_options; b++)
            for (int va = 0; va < c->n_values[a]; va++)
                for (int vb = 0; vb < c->n_values[b]; vb++) {
                    ++*all;
                    *met += *met_at(c, a, va, b, vb);
                }
}
