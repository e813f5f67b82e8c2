/* plan_rig.h - a plan for tests: opened in one call with pages and kernels as given, and steps one after the other. */
#pragma once
#include "base/pool.h"
#include "cpu/cpu_backend.h"
#include "plan/drive.h"
#include "test.h"

typedef struct plan_case {
    const char *devices;         /* NULL: "cpu" */
    const backend_use *backends; /* NULL: the CPU alone, with `cpu` */
    cpu_options cpu;
    int rows, pages; /* capacity of every axis (of AXIS_EXP times the experts of a row); pages of every group */
    dtype kv;        /* DTYPE_NONE: f32 */
    bool inexact;
    int in_flight, kv_host;
    pace pretended_speed;
    const plan *shares;
} plan_case;

static inline int rig_plan_place(plan **l, const program *p, const plan_case *c, err *e) /* plan_open */
{
    const backend_use cpu[] = {{&cpu_backend, &c->cpu}, {0}};
    device_list devices;
    *l = NULL;
    int rc = device_list_parse(&devices, c->devices ? c->devices : "cpu", c->backends ? c->backends : cpu, e);
    plan_options o = {.devices = &devices,
                      .backends = c->backends ? c->backends : cpu,
                      .choices = {.exact = c->inexact ? EXACT_OFF : EXACT_ON, .in_flight = c->in_flight},
                      .kv_host = c->kv_host,
                      .pretended_speed = c->pretended_speed,
                      .shares = c->shares};
    for (int i = 0; i < AXIS_COUNT; i++) o.max_rows[i] = c->rows;
    if (p->n_used) o.max_rows[AXIS_EXP] = c->rows * p->n_used;
    if (!rc) rc = plan_open(l, p, &o, e);
    device_list_close(&devices);
    return rc;
}

/* plan_open and plan_ready. */
static inline int rig_plan_open(plan **l, const program *p, const plan_case *c, err *e)
{
    cache_options cache = {.k_type = c->kv ? c->kv : DTYPE_F32, .n_slot = 2 * c->rows};
    cache.v_type = cache.k_type;
    for (int g = 0; g < GROUP_MAX; g++) cache.n_page[g] = c->pages;
    int rc = rig_plan_place(l, p, c, e);
    if (!rc && (rc = plan_ready(*l, &cache, NULL, e))) {
        plan_close(*l);
        *l = NULL;
    }
    return rc;
}

static inline plan *rig_plan(const program *p, plan_case c)
{
    err e = {0};
    plan *l;
    assert_ok(rig_plan_open(&l, p, &c, &e), &e);
    return l;
}

static inline void rig_plan_step(plan *l, const step *st)
{
    err e = {0};
    plan_send(l, st);
    assert_ok(plan_collect(l, &e), &e);
}
