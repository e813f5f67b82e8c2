/* spec_slot.c - see spec_slot.h. */
#include "models/spec/spec_slot.h"

#include "base/mem.h"
#include "models/spec/spec_split.h"

#include <string.h>

static spec_slot *slot_of(spec *s, const char *section, const char *name)
{
    for (size_t i = 0; i < s->n_slot; i++)
        if (strcmp(s->slots[i].section, section) == 0 && strcmp(s->slots[i].name, name) == 0) return &s->slots[i];
    return NULL;
}

const spec_slot *spec_slot_find(const spec *s, const char *section, const char *name)
{
    return slot_of((spec *)s, section, name);
}

const spec_slot *spec_slot_use(spec *s, const char *section, const char *name)
{
    spec_slot *d = slot_of(s, section, name);
    if (d) d->used = true;
    return d;
}

bool spec_replaced(spec *s, const char *text) { return buf_printf(&s->replaced, "%s\n", text); }

static int set_option(spec *s, spec_slot *slot, span key, span text, const char *where, err *e)
{
    slot_option o = {.key = arena_strn(&s->mem, (const char *)key.p, key.n),
                     .text = arena_strn(&s->mem, (const char *)text.p, text.n),
                     .where = where};
    char *place = o.key ? arena_printf(&s->mem, "%s: %s.%s", where, slot->name, o.key) : NULL;
    if (!place || !o.text) return err_memory(e, "a spec");
    int rc = expr_parse(&o.value, &s->mem, o.text, place, e);
    if ((rc = mistake_noted(s->noted, rc, e)) || !o.value) return rc;
    for (size_t i = 0; i < slot->n; i++)
        if (strcmp(slot->options[i].key, o.key) == 0) {
            if (slot->options[i].where == where) return err_set(e, ERR_SPEC, "%s is given twice", place);
            if (!spec_replaced(s, slot->options[i].text)) return err_memory(e, "a spec");
            slot->options[i] = o;
            return OK;
        }
    if (!mem_grow((void **)&slot->options, &slot->cap, slot->n + 1, sizeof *slot->options))
        return err_memory(e, "a spec");
    slot->options[slot->n++] = o;
    return OK;
}

static int set_module(spec *s, spec_slot *slot, span word, const char *where, err *e)
{
    if (slot->module && span_is(word, slot->module)) return OK;
    for (size_t i = 0; i < slot->n; i++)
        if (!spec_replaced(s, slot->options[i].text)) return err_memory(e, "a spec");
    slot->n = 0; /* another module has other options */
    slot->where = where;
    slot->module = arena_strn(&s->mem, (const char *)word.p, word.n);
    return slot->module ? OK : err_memory(e, "a spec");
}

int spec_slot_merge(spec *s, const char *section, const char *name, const char *text, const char *where, bool own,
                    err *e)
{
    spec_slot *slot = slot_of(s, section, name);
    if (!slot) {
        if (!mem_grow((void **)&s->slots, &s->cap_slot, s->n_slot + 1, sizeof *s->slots))
            return err_memory(e, "a spec");
        slot = &s->slots[s->n_slot++];
        *slot = (spec_slot){.section = section, .name = name, .where = where};
    }
    slot->own |= own;
    span rest = span_str(text), part;
    bool first = true;
    while (split_next(&rest, ',', &part)) {
        size_t eq = find_assign(part);
        int rc;
        if (eq == SIZE_MAX && first) rc = part.n ? set_module(s, slot, part, where, e) : OK;
        else if (eq == SIZE_MAX || eq == 0)
            rc = err_set(e, ERR_SPEC, "%s: %s: expected 'option = value' at '%.*s'", where, name, (int)part.n,
                         (const char *)part.p);
        else
            rc = set_option(s, slot, span_trim(span_of(part.p, eq)),
                            span_trim(span_of(part.p + eq + 1, part.n - eq - 1)), where, e);
        if ((rc = mistake_noted(s->noted, rc, e))) return rc;
        first = false;
    }
    return OK;
}
