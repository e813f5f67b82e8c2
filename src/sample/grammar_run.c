/* grammar_run.c - see grammar_run.h. A call in the last place of a rule leaves no return behind, so that lists that are
 * written with recursion at their end need no deeper stack than others. */
#include "sample/grammar_run.h"

#include "base/mem.h"
#include "sample/token_trie.h"

#include <stdlib.h>
#include <string.h>

static uint32_t mix(uint64_t h)
{
    h *= UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32 ^ h >> 15);
}

/* The cell of a node on a stack; false: there is no room. */
static bool find_cell(grammar_run *r, uint32_t node, uint32_t below, uint32_t *out)
{
    uint32_t i = mix((uint64_t)node << 32 | below) & (2 * RUN_CELLS - 1);
    for (; r->cell_slot[i]; i = (i + 1) & (2 * RUN_CELLS - 1)) {
        const grammar_cell *c = &r->cell[r->cell_slot[i]];
        if (c->node != node || c->below != below) continue;
        *out = r->cell_slot[i];
        return true;
    }
    if (r->n_cell == RUN_CELLS) return false;
    r->cell[r->n_cell] = (grammar_cell){node, below};
    *out = r->cell_slot[i] = r->n_cell++;
    return true;
}

/* ---- the configurations that a node leads to */

/* Puts a node on a stack among those to look at, unless it was. */
static bool look_at(grammar_run *r, uint32_t node, uint32_t below)
{
    if (!r->g->node[node].alive) return true;
    uint32_t i = mix((uint64_t)node << 32 | below) & (2 * RUN_CONFIGS - 1);
    for (; r->seen[i].stamp == r->stamp; i = (i + 1) & (2 * RUN_CONFIGS - 1))
        if (r->seen[i].node == node && r->seen[i].below == below) return true;
    if (r->n_visit == RUN_CONFIGS) return false;
    r->n_visit++;
    r->seen[i] = (visit){node, below, r->stamp};
    r->todo[r->n_todo++] = r->seen[i];
    return true;
}

/* Where a rule that is called by x returns to: what x was called from, if nothing follows it. */
static bool return_to(grammar_run *r, const grammar_node *x, uint32_t below, uint32_t *out)
{
    *out = below;
    return r->g->node[x->next].kind == NODE_END || find_cell(r, x->next, below, out);
}

/* Adds to `found` all configurations that the node leads to without reading. */
static bool close_over(grammar_run *r, uint32_t node, uint32_t below)
{
    bool ok = look_at(r, node, below);
    while (ok && r->n_todo) {
        const visit v = r->todo[--r->n_todo];
        const grammar_node *x = &r->g->node[v.node];
        uint32_t cell = CELL_DONE;
        switch (x->kind) {
        case NODE_SET:
            ok = find_cell(r, v.node, v.below, &cell);
            r->found[r->n_found++] = cell;
            break;
        case NODE_SPLIT: ok = look_at(r, x->arg, v.below) && look_at(r, x->next, v.below); break;
        case NODE_CALL: ok = return_to(r, x, v.below, &cell) && look_at(r, r->g->entry[x->arg], cell); break;
        case NODE_END:
            if (v.below == CELL_DONE) r->found[r->n_found++] = CELL_DONE;
            else ok = look_at(r, r->cell[v.below].node, r->cell[v.below].below);
            break;
        }
    }
    return ok;
}

static void begin_state(grammar_run *r)
{
    if (!++r->stamp) { /* old stamps would look new */
        memset(r->seen, 0, 2 * RUN_CONFIGS * sizeof *r->seen);
        r->stamp = 1;
    }
    r->n_visit = r->n_todo = r->n_found = 0;
}

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* By insertion while there are few, as is common. */
static void sort_numbers(uint32_t *p, uint32_t n)
{
    if (n > 32) qsort(p, n, sizeof *p, by_number);
    for (uint32_t i = 1; i < n && n <= 32; i++) {
        const uint32_t one = p[i];
        uint32_t k = i;
        for (; k > 0 && p[k - 1] > one; k--) p[k] = p[k - 1];
        p[k] = one;
    }
}

/* The state that has the cells found. */
static uint32_t end_state(grammar_run *r)
{
    uint32_t n = r->n_found, i;
    if (!n) return STATE_DEAD;
    sort_numbers(r->found, n);
    uint64_t h = n;
    for (i = 0; i < n; i++) h = (h ^ r->found[i]) * UINT64_C(0x100000001b3);
    for (i = mix(h) & (2 * RUN_STATES - 1); r->state_slot[i]; i = (i + 1) & (2 * RUN_STATES - 1)) {
        const grammar_state *s = &r->state[r->state_slot[i]];
        if (s->n == n && memcmp(r->member + s->first, r->found, n * sizeof *r->found) == 0) return r->state_slot[i];
    }
    if (r->n_state == RUN_STATES || n > RUN_MEMBERS - r->n_member) return STATE_UNKNOWN;
    memcpy(r->member + r->n_member, r->found, n * sizeof *r->found);
    r->state[r->n_state] = (grammar_state){r->n_member, n};
    r->n_member += n;
    return r->state_slot[i] = r->n_state++;
}

/* The state that the cells of a state lead to which read the byte. */
static uint32_t leave_state(grammar_run *r, const grammar_state *s, uint8_t byte)
{
    bool ok = true;
    begin_state(r);
    for (uint32_t i = 0; i < s->n && ok; i++) {
        const uint32_t at = r->member[s->first + i];
        const grammar_node *x = &r->g->node[r->cell[at].node];
        if (at != CELL_DONE && byte_set_has(&r->g->set[x->arg], byte)) ok = close_over(r, x->next, r->cell[at].below);
    }
    return ok ? end_state(r) : STATE_UNKNOWN;
}

uint32_t grammar_run_make(grammar_run *r, uint32_t state, uint8_t byte)
{
    const grammar_state s = r->state[state];
    uint32_t *go = &r->go[(size_t)state * (size_t)r->g->n_class + r->g->class[byte]], k = 0;
    uint64_t cells = 0;
    if (s.n > 64) return *go = leave_state(r, &s, byte);
    for (uint32_t i = 0; i < s.n; i++) {
        const uint32_t at = r->member[s.first + i];
        const bool reads = at != CELL_DONE && byte_set_has(&r->g->set[r->g->node[r->cell[at].node].arg], byte);
        cells |= (uint64_t)reads << i;
    }
    if (!cells) return *go = STATE_DEAD;
    if (r->left != state) r->n_way = 0;
    r->left = state;
    while (k < r->n_way && r->way[k].cells != cells) k++;
    if (k < r->n_way) return *go = r->way[k].to;
    *go = leave_state(r, &s, byte);
    if (*go && r->n_way < RUN_WAYS) r->way[r->n_way++] = (struct grammar_way){cells, *go};
    return *go;
}

/* ---- life */

/* The first state alone, in tables that are clear. */
static void begin_run(grammar_run *r)
{
    r->n_cell = CELL_DONE + 1;
    r->n_state = STATE_START;
    r->n_member = 0;
    r->left = STATE_UNKNOWN;
    r->epoch++;
    begin_state(r);
    if (close_over(r, r->g->root, CELL_DONE)) end_state(r);
}

uint32_t grammar_run_flush(grammar_run *r, uint32_t state)
{
    const uint32_t n = r->state[state].n;
    memset(r->cell_slot, 0, 2 * RUN_CELLS * sizeof *r->cell_slot);
    memset(r->state_slot, 0, 2 * RUN_STATES * sizeof *r->state_slot);
    memset(r->go, 0, (size_t)r->n_state * (size_t)r->g->n_class * sizeof *r->go);
    memset(r->pass, 0, r->n_state * sizeof *r->pass);
    memcpy(r->old, r->cell, r->n_cell * sizeof *r->cell);
    memcpy(r->kept, r->member + r->state[state].first, n * sizeof *r->kept);
    begin_run(r);
    begin_state(r);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t depth = 0, cell = CELL_DONE;
        for (uint32_t at = r->kept[i]; at != CELL_DONE; at = r->old[at].below) r->path[depth++] = at;
        while (depth-- > 0)
            if (!find_cell(r, r->old[r->path[depth]].node, cell, &cell)) return STATE_UNKNOWN;
        r->found[r->n_found++] = cell;
    }
    return end_state(r);
}

int grammar_run_open(grammar_run *r, const grammar_nodes *g, err *e)
{
    *r = (grammar_run){.g = g, .n_cell = 1, .n_state = STATE_START};
    r->cell = mem_array(RUN_CELLS, sizeof *r->cell);
    r->old = mem_array(RUN_CELLS, sizeof *r->old);
    r->kept = mem_array(RUN_CONFIGS, sizeof *r->kept);
    r->path = mem_array(RUN_CELLS, sizeof *r->path);
    r->cell_slot = mem_zero(2 * RUN_CELLS, sizeof *r->cell_slot);
    r->state = mem_zero(RUN_STATES, sizeof *r->state);
    r->state_slot = mem_zero(2 * RUN_STATES, sizeof *r->state_slot);
    r->member = mem_array(RUN_MEMBERS, sizeof *r->member);
    r->go = mem_zero(RUN_STATES, (size_t)g->n_class * sizeof *r->go);
    r->pass = mem_zero(RUN_STATES, sizeof *r->pass);
    r->seen = mem_zero(2 * RUN_CONFIGS, sizeof *r->seen);
    r->todo = mem_array(RUN_CONFIGS, sizeof *r->todo);
    r->found = mem_array(RUN_CONFIGS, sizeof *r->found);
    if (!r->cell || !r->old || !r->kept || !r->path || !r->cell_slot || !r->state || !r->state_slot || !r->member ||
        !r->go || !r->pass || !r->seen || !r->todo || !r->found) {
        grammar_run_close(r);
        return err_memory(e, "the states of a grammar");
    }
    begin_run(r);
    if (r->n_state > STATE_START) return OK;
    grammar_run_close(r);
    return err_set(e, ERR_LIMIT, "the grammar has more than %d beginnings", RUN_CONFIGS);
}

void grammar_run_close(grammar_run *r)
{
    mem_free(r->cell);
    mem_free(r->old);
    mem_free(r->kept);
    mem_free(r->path);
    mem_free(r->cell_slot);
    mem_free(r->state);
    mem_free(r->state_slot);
    mem_free(r->member);
    mem_free(r->go);
    mem_free(r->pass);
    mem_free(r->seen);
    mem_free(r->todo);
    mem_free(r->found);
    *r = (grammar_run){0};
}

/* ---- passes */

/* The one state that all bytes of a range lead to; STATE_DEAD: there is none. */
static uint32_t one_state(grammar_run *r, uint32_t state, unsigned from, unsigned to)
{
    uint32_t all = grammar_run_go(r, state, (uint8_t)from);
    for (unsigned b = from + 1; b <= to && all > STATE_DEAD; b++) {
        const uint32_t one = grammar_run_go(r, state, (uint8_t)b);
        if (one != all) all = one ? STATE_DEAD : STATE_UNKNOWN;
    }
    return all;
}

/* The state that all characters beyond ASCII lead to; as above. */
static uint32_t beyond_ascii(grammar_run *r, uint32_t state)
{
    static const uint8_t lead[][4] = {/* of first bytes the range, of second bytes the range */
                                      {0xc2, 0xdf, 0x80, 0xbf}, {0xe0, 0xe0, 0xa0, 0xbf}, {0xe1, 0xec, 0x80, 0xbf},
                                      {0xed, 0xed, 0x80, 0x9f}, {0xee, 0xef, 0x80, 0xbf}, {0xf0, 0xf0, 0x90, 0xbf},
                                      {0xf1, 0xf3, 0x80, 0xbf}, {0xf4, 0xf4, 0x80, 0x8f}};
    uint32_t all = STATE_UNKNOWN;
    for (size_t i = 0; i < sizeof lead / sizeof *lead; i++) {
        uint32_t at = one_state(r, state, lead[i][0], lead[i][1]);
        if (at > STATE_DEAD) at = one_state(r, at, lead[i][2], lead[i][3]);
        for (int more = (lead[i][0] >= 0xe0) + (lead[i][0] >= 0xf0); more > 0 && at > STATE_DEAD; more--)
            at = one_state(r, at, 0x80, 0xbf);
        if (at <= STATE_DEAD) return at;
        if (all && at != all) return STATE_DEAD;
        all = at;
    }
    return all;
}

const grammar_pass *grammar_run_pass(grammar_run *r, uint32_t state)
{
    grammar_pass *p = &r->pass[state];
    if (p->to) return p;
    const uint32_t to = grammar_run_go(r, state, 'e');
    if (to == STATE_UNKNOWN) return NULL;
    uint64_t apart = 0;
    for (uint8_t b = 0; b < 0x80 && to != STATE_DEAD; b++) {
        const uint32_t one = grammar_run_go(r, state, b);
        if (one == STATE_UNKNOWN) return NULL;
        if (one != to) apart |= UINT64_C(1) << trie_bucket(b);
    }
    if (to != STATE_DEAD) {
        const uint32_t one = beyond_ascii(r, state);
        if (one == STATE_UNKNOWN) return NULL;
        if (one != to) apart |= UINT64_C(1) << BUCKET_BEYOND_ASCII;
    }
    p->buckets = to == STATE_DEAD ? 0 : ~apart & ~(UINT64_C(1) << BUCKET_INVALID);
    p->to = to;
    return p;
}
