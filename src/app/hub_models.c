/* hub_models.c - see hub_models.h. Flags are read twice where a spec or a model gives other defaults: a name that has
 * been found is not looked for again. */
#include "app/hub_models.h"

#include "base/file.h"
#include "base/mem.h"
#include "hub/hub_cache.h"
#include "hub/hub_pull.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Asks the user, where both sides of a conversation are on a terminal. */
static bool is_wanted(const char *given)
{
    char line[80];
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) return false;
    fprintf(stderr, "%s is not on this machine. Download it? [y/N] ", given);
    return fgets(line, sizeof line, stdin) && (line[0] == 'y' || line[0] == 'Y');
}

/* The path of a model; it is looked for once. */
static int find_model(invocation *v, const char *given, const hub_name *name, bool yes, const char **path, err *e)
{
    for (size_t i = 0; i < v->n_hub; i++)
        if (strcmp(v->hub[i].name, given) == 0) {
            *path = v->hub[i].path;
            return OK;
        }
    if (v->n_hub == HUB_MODELS_MAX) return err_set(e, ERR_LIMIT, "more than %d models of the hub", HUB_MODELS_MAX);
    hub_cache c;
    char *found = NULL;
    int rc = hub_cache_open(&c, name->repo, e);
    if (!rc) rc = hub_cache_find(&c, name, &found, e);
    if (rc == ERR_NOT_FOUND && (yes || is_wanted(given))) {
        if (e) *e = (err){0};
        rc = hub_pull(name, NULL, HUB_CONNECTIONS, &found, e);
    } else if (rc == ERR_NOT_FOUND)
        err_wrap(e, "%s: no such folder or file; `inferflow pull %s` downloads it", given, given);
    hub_cache_close(&c);
    if (rc) return rc;
    v->hub[v->n_hub].name = given;
    *path = v->hub[v->n_hub++].path = found;
    return OK;
}

int hub_models_take(invocation *v, bool yes, err *e)
{
    int rc = OK;
    for (const flag_group *g = v->cmd->flags; g && g->title && !rc; g++)
        for (size_t i = 0; i < *g->n && !rc; i++) {
            const param *row = &g->rows[i];
            const char **value = (const char **)((char *)v->options + g->offset + row->offset);
            hub_name name;
            if (row->path != PATH_MODEL || !*value || file_exists(*value) || !hub_name_read(&name, *value)) continue;
            rc = find_model(v, *value, &name, yes, value, e);
        }
    return rc;
}

void hub_models_free(invocation *v)
{
    for (size_t i = 0; i < v->n_hub; i++) mem_free(v->hub[i].path);
    v->n_hub = 0;
}
