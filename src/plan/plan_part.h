/* plan_part.h - what each device of a plan has of the model: runs of heads, columns and rows, and bytes. Devices of
 * other processes are no exception, as every process cuts for all. */
#pragma once
#include "plan/plan_state.h"

typedef struct plan_part {
    /* Equal ends: nothing of it. Of attention in the first layer that has any: query heads, and those of keys and
     * values, which ranks may share. */
    cut_range heads, kv_heads;
    cut_range ffn;   /* columns between two matrices of a layer where no state is, of the widest such activation; all of
                        them where ranks have whole experts */
    cut_range vocab; /* rows of the output head; in a group without one, of the table of tokens */
    uint64_t weight_bytes;
    uint64_t page_bytes; /* a page of every group */
    uint64_t kv_bytes;   /* all pages and slots, but */
    uint64_t host_bytes; /* pages in memory of the host, where the device has one of its own */
} plan_part;

/* *out: [plan_segments], for mem_free. */
int plan_parts(const plan *l, plan_part **out, err *e);
