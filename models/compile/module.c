/* module.c - the table of modules. */
#include "models/compile/module.h"

#include "models/compile/module_list.h"

#include <string.h>

#define X(name) extern const module module_##name;
MODULE_LIST(X)
#undef X

const module *const module_list[] = {
#define X(name) &module_##name,
    MODULE_LIST(X)
#undef X
        NULL};
const size_t module_count = sizeof module_list / sizeof *module_list - 1;

const module *module_find(const char *kind, const char *name)
{
    const module *found = NULL;
    size_t n = strlen(kind);
    for (size_t i = 0; i < module_count; i++) {
        const module *m = module_list[i];
        bool of_kind = strncmp(m->name, kind, n) == 0 && m->name[n] == '.';
        if (name && (strcmp(m->name, name) == 0 || (of_kind && strcmp(m->name + n + 1, name) == 0))) return m;
        if (!name && of_kind) {
            if (found) return NULL;
            found = m;
        }
    }
    return found;
}

const param *module_option(const char *name, param_type type)
{
    for (size_t i = 0; i < module_count; i++) {
        const param *p = param_find(module_list[i]->params, module_list[i]->n_params, name);
        if (p && p->type == type) return p;
    }
    return NULL;
}
