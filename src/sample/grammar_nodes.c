/* grammar_nodes.c - see grammar_nodes.h. Phrases are turned into nodes from their end: each is given the node that
 * follows it, so that nothing has to be patched but loops. */
#include "sample/grammar_nodes.h"

#include "base/mem.h"
#include "sample/grammar_common.h"

#include <string.h>

typedef struct maker {
    grammar_nodes *g;
    grammar_builder *b;
    map sets; /* by their bytes, which lie in the builder's arena */
    uint32_t dead;
    bool plain; /* repetitions stand as often as they may come, and call no rule */
} maker;

enum { NODES_MAX = 1 << 30 };

static uint32_t add_node(maker *m, node_kind kind, uint32_t next, uint32_t arg)
{
    grammar_nodes *g = m->g;
    void *p = g->node;
    if (!grammar_builder_good(m->b, g->cap * sizeof *g->node)) return 0;
    if (g->n >= NODES_MAX || !mem_grow(&p, &g->cap, g->n + 1, sizeof *g->node)) {
        err_memory(m->b->e, "a grammar");
        return 0;
    }
    g->node = p;
    g->node[g->n] = (grammar_node){.kind = kind, .next = next, .arg = arg};
    return (uint32_t)g->n++;
}

static uint32_t add_set(maker *m, const byte_set *set, uint32_t next)
{
    grammar_nodes *g = m->g;
    const span key = span_of(set, sizeof *set);
    uint32_t at = map_get(&m->sets, key);
    if (at == MAP_NONE) {
        byte_set *own = arena_alloc(&m->b->mem, sizeof *own);
        void *p = g->set;
        at = (uint32_t)g->n_set;
        if (own) *own = *set;
        if (!own || !mem_grow(&p, &g->cap_set, g->n_set + 1, sizeof *set) ||
            !map_put(&m->sets, span_of(own, sizeof *own), at)) {
            err_memory(m->b->e, "a grammar");
            return 0;
        }
        g->set = p;
        g->set[g->n_set++] = *set;
    }
    return add_node(m, NODE_SET, next, at);
}

static uint32_t put_phrase(maker *m, const phrase *x, uint32_t next);

/* What is repeated stands once: as a rule, unless it is a single node. */
static uint32_t put_repeat(maker *m, const phrase *x, uint32_t next)
{
    const phrase *of = x->item[0];
    phrase call = {.kind = PHRASE_RULE};
    const bool small = of->kind == PHRASE_SET || of->kind == PHRASE_RULE || of->kind == PHRASE_NEVER ||
                       (of->kind == PHRASE_TEXT && of->text.n < 2);
    if (!small && !m->plain && x->min + (x->max > 0 ? x->max - x->min : 0) > 1) {
        call.rule = grammar_rule_new(m->b, span_str("a repetition"), x->item[0]);
        of = &call;
    }
    uint32_t at = next;
    if (x->max < 0) {
        const uint32_t loop = add_node(m, NODE_SPLIT, m->dead, next);
        const uint32_t body = put_phrase(m, of, loop);
        if (m->b->e->code) return 0;
        m->g->node[loop].next = body;
        at = loop;
    }
    for (int64_t i = x->min; i < x->max && !m->b->e->code; i++)
        at = add_node(m, NODE_SPLIT, put_phrase(m, of, at), next);
    for (int64_t i = 0; i < x->min && !m->b->e->code; i++) at = put_phrase(m, of, at);
    return at;
}

static uint32_t put_choice(maker *m, const phrase *x, uint32_t next)
{
    uint32_t at = m->dead;
    for (size_t i = x->n; i-- > 0 && !m->b->e->code;) {
        const uint32_t one = put_phrase(m, x->item[i], next);
        at = at == m->dead ? one : add_node(m, NODE_SPLIT, one, at);
    }
    return at;
}

/* Both phrases become nodes, which make room for those that they have in common. */
static uint32_t put_common(maker *m, const phrase *x, uint32_t next)
{
    grammar_nodes *g = m->g;
    const size_t before = g->n;
    const bool plain = m->plain;
    common_nodes c = {0};
    m->plain = true;
    const uint32_t a = put_phrase(m, x->item[0], 0), b = put_phrase(m, x->item[1], 0);
    m->plain = plain;
    common_nodes_make(&c, m->b, g, a, b);
    g->n = before;
    uint32_t to = (uint32_t)before; /* a, and then the number of the node that stands for a common one */
    for (size_t i = c.n; i-- > 0;) c.node[i].a = !c.node[i].alive ? m->dead : c.node[i].kind == NODE_END ? next : to++;
    for (size_t i = c.n; i-- > 0 && !m->b->e->code;) {
        const common_node *k = &c.node[i];
        if (k->alive && k->kind == NODE_SET) add_set(m, &k->set, c.node[k->next].a);
        if (k->alive && k->kind == NODE_SPLIT) add_node(m, NODE_SPLIT, c.node[k->next].a, c.node[k->arg].a);
    }
    const uint32_t first = m->b->e->code ? 0 : c.node[0].a;
    common_nodes_free(&c);
    return first;
}

/* The first node of a phrase that goes on at `next`. */
static uint32_t put_phrase(maker *m, const phrase *x, uint32_t next)
{
    if (!x || !grammar_builder_good(m->b, 0)) return 0;
    byte_set one = {0};
    switch (x->kind) {
    case PHRASE_NEVER: return m->dead;
    case PHRASE_TEXT:
        for (size_t i = x->text.n; i-- > 0; next = add_set(m, &one, next)) {
            one = (byte_set){0};
            byte_set_add(&one, x->text.p[i], x->text.p[i]);
        }
        return next;
    case PHRASE_SET: return add_set(m, &x->set, next);
    case PHRASE_SEQUENCE:
        for (size_t i = x->n; i-- > 0;) next = put_phrase(m, x->item[i], next);
        return next;
    case PHRASE_CHOICE: return put_choice(m, x, next);
    case PHRASE_REPEAT: return put_repeat(m, x, next);
    case PHRASE_COMMON: return put_common(m, x, next);
    case PHRASE_RULE: return add_node(m, NODE_CALL, next, x->rule);
    }
    return next;
}

/* ---- checks */

/* Both marks grow from the ends of rules until nothing changes. Nodes come after those that follow them, so that few
 * passes are needed. */
static void mark_alive(maker *m)
{
    grammar_nodes *g = m->g;
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < g->n; i++) {
            grammar_node *x = &g->node[i];
            const grammar_node *next = &g->node[x->next];
            bool alive = x->kind == NODE_END, empty = alive;
            if (x->kind == NODE_SET) alive = next->alive;
            if (x->kind == NODE_SPLIT) {
                alive = next->alive || g->node[x->arg].alive;
                empty = next->empty || g->node[x->arg].empty;
            }
            if (x->kind == NODE_CALL) {
                alive = next->alive && g->node[g->entry[x->arg]].alive;
                empty = next->empty && g->node[g->entry[x->arg]].empty;
            }
            changed = changed || alive != x->alive || empty != x->empty;
            x->alive = alive;
            x->empty = empty;
            if (i % 1024 == 0 && !grammar_builder_good(m->b, 0)) return;
        }
    }
}

/* The search for left recursion: a rule is open while those that it begins with are looked at. */
typedef struct search {
    maker *m;
    uint8_t *state; /* [n_rule] 0 new, 1 open, 2 done */
    uint32_t *open; /* [n_rule] the open rules, each with its nodes to look at from todo_at[] on */
    size_t n_open, *todo_at;
    uint32_t *todo;
    size_t n_todo, cap_todo;
    uint8_t *seen; /* [nodes] */
} search;

static bool push_node(search *s, uint32_t node)
{
    void *p = s->todo;
    if (s->seen[node] || !s->m->g->node[node].alive) return true;
    s->seen[node] = 1; /* a node belongs to one rule */
    if (!mem_grow(&p, &s->cap_todo, s->n_todo + 1, sizeof *s->todo)) return false;
    s->todo = p;
    s->todo[s->n_todo++] = node;
    return true;
}

static bool open_rule(search *s, uint32_t rule)
{
    s->state[rule] = 1;
    s->todo_at[s->n_open] = s->n_todo;
    s->open[s->n_open++] = rule;
    return push_node(s, s->m->g->entry[rule]);
}

/* Looks at the rules that `rule` may begin with. */
static bool look_from(search *s, uint32_t rule)
{
    const grammar_nodes *g = s->m->g;
    if (s->state[rule]) return true;
    bool ok = open_rule(s, rule);
    while (ok && s->n_open && grammar_builder_good(s->m->b, 0)) {
        if (s->n_todo == s->todo_at[s->n_open - 1]) {
            s->state[s->open[--s->n_open]] = 2;
            continue;
        }
        const grammar_node *x = &g->node[s->todo[--s->n_todo]];
        if (x->kind == NODE_SPLIT) ok = push_node(s, x->next) && push_node(s, x->arg);
        if (x->kind != NODE_CALL) continue;
        if (s->state[x->arg] == 1) {
            const span name = s->m->b->rule[x->arg].name;
            err_set(s->m->b->e, ERR_FORMAT, "rule '%.*s' begins with itself: left recursion is not supported",
                    (int)(name.n < 200 ? name.n : 200), (const char *)name.p);
            return true;
        }
        if (g->node[g->entry[x->arg]].empty) ok = push_node(s, x->next);
        if (ok && !s->state[x->arg]) ok = open_rule(s, x->arg);
    }
    return ok;
}

static void check_left_recursion(maker *m)
{
    const size_t n = m->g->n_rule;
    search s = {.m = m,
                .state = mem_zero(n, sizeof *s.state),
                .open = mem_array(n, sizeof *s.open),
                .todo_at = mem_array(n, sizeof *s.todo_at),
                .seen = mem_zero(m->g->n, sizeof *s.seen)};
    bool ok = s.state && s.open && s.todo_at && s.seen;
    for (size_t i = 0; i < n && ok && !m->b->e->code; i++)
        if (m->g->node[m->g->entry[i]].alive) ok = look_from(&s, (uint32_t)i);
    if (!ok) err_memory(m->b->e, "a grammar");
    mem_free(s.state);
    mem_free(s.open);
    mem_free(s.todo_at);
    mem_free(s.seen);
    mem_free(s.todo);
}

/* Splits the classes of bytes by each set. */
static void make_classes(grammar_nodes *g)
{
    g->n_class = 1;
    for (size_t i = 0; i < g->n_set && g->n_class < 256; i++) {
        int inside[256], n = g->n_class;
        bool outside[256] = {false};
        for (int c = 0; c < 256; c++) inside[c] = -1;
        for (unsigned b = 0; b < 256; b++)
            if (!byte_set_has(&g->set[i], b)) outside[g->class[b]] = true;
        for (unsigned b = 0; b < 256; b++) {
            int *to = &inside[g->class[b]];
            if (!byte_set_has(&g->set[i], b) || !outside[g->class[b]]) continue;
            if (*to < 0) *to = n++;
            g->class[b] = (uint8_t)*to;
        }
        g->n_class = n;
    }
}

static void put_rules(maker *m, uint32_t root)
{
    grammar_nodes *g = m->g;
    grammar_builder *b = m->b;
    size_t cap = 0;
    add_node(m, NODE_END, 0, 0);
    m->dead = add_node(m, NODE_DEAD, 0, 0);
    for (size_t i = 0; i < b->n_rule && !b->e->code; i++) { /* repetitions add rules on the way */
        void *p = g->entry;
        const grammar_rule r = b->rule[i];
        if (!r.body) {
            err_set(b->e, ERR_FORMAT, "rule '%.*s' is not defined", (int)(r.name.n < 200 ? r.name.n : 200),
                    (const char *)r.name.p);
        } else if (!mem_grow(&p, &cap, i + 1, sizeof *g->entry)) {
            err_memory(b->e, "a grammar");
        } else {
            g->entry = p;
            g->entry[i] = put_phrase(m, r.body, 0);
        }
    }
    g->n_rule = b->n_rule;
    if (!b->e->code) g->root = g->entry[root];
}

/* The root and the rules that are needed must derive a text. */
static void check_alive(maker *m, uint32_t root)
{
    const grammar_builder *b = m->b;
    for (size_t i = 0; i < b->n_rule && !b->e->code; i++) {
        const span name = b->rule[i].name;
        if ((i != root && !b->rule[i].needed) || m->g->node[m->g->entry[i]].alive) continue;
        if (b->rule[i].needed && *b->rule[i].needed) err_set(b->e, ERR_FORMAT, "%s", b->rule[i].needed);
        else
            err_set(b->e, ERR_UNSATISFIABLE, "rule '%.*s' derives no text: nothing satisfies this grammar",
                    (int)(name.n < 200 ? name.n : 200), (const char *)name.p);
    }
}

int grammar_nodes_make(grammar_nodes *out, grammar_builder *b, uint32_t root)
{
    *out = (grammar_nodes){0};
    maker m = {.g = out, .b = b};
    if (!b->e->code) put_rules(&m, root);
    if (!b->e->code) mark_alive(&m);
    if (!b->e->code) check_alive(&m, root);
    if (!b->e->code) check_left_recursion(&m);
    if (!b->e->code) make_classes(out);
    map_free(&m.sets);
    if (b->e->code) grammar_nodes_free(out);
    return b->e->code;
}

void grammar_nodes_free(grammar_nodes *g)
{
    mem_free(g->node);
    mem_free(g->entry);
    mem_free(g->set);
    *g = (grammar_nodes){0};
}
