/* drv_state.h - the software driver's own things: what the handles of its callers point to.
 *
 * libcuda.so.1 with devices that are programs (SOFT_GPU_...: drv_call.c). One lock holds the driver; it is let go
 * between the turns of kernels. */
#pragma once
#include <pthread.h>
#include <stdbool.h>

#include "tests/gpu/cuda_abi.h"
#include "tests/gpu/machine.h"

typedef struct drv_settings {
    int version, devices, major, minor, multiprocessors;
    size_t memory; /* of a device */
    uint64_t seed, patience;
    bool whole;
} drv_settings;
extern drv_settings drv_set;

/* What a call needs before it does anything. */
enum { CALL_CONTEXT = 1, CALL_UNCAPTURED = 2, CALL_AGAIN = 4 /* neither counted nor failed: it was before */ };
/* Takes the lock, counts the call, fails it where SOFT_GPU_FAIL says so. Whatever it answers, drv_leave follows. */
CUresult drv_enter(const char *name, int needs);
CUresult drv_leave(CUresult r);
/* Lets other threads in for a moment. */
void drv_breathe(void);
/* The same for so many ns; how many it were. */
uint64_t drv_sleep(long ns);
/* ns of a clock. */
uint64_t drv_now(void);
/* A line on stderr for what a caller did wrong. */
__attribute__((format(printf, 1, 2))) void drv_say(const char *format, ...);

typedef struct drv_counts {
    uint64_t calls, launches, kernels, early, graph_launches, graphs, to_device, bytes_to_device, to_host,
        bytes_to_host, on_device, bytes_on_device, pageable, sets, allocations, bytes_allocated, host_allocations,
        synchronizations;
} drv_counts;
extern drv_counts drv_count;

typedef struct context {
    int device, retained;
    bool alive;
    CUresult broken; /* a kernel's fault: the answer to everything from then on */
    struct stream *null_stream;
    struct stream *streams; /* all, also destroyed ones */
} context;
context *drv_current(void);

typedef struct module {
    context *cx;
    program *p;
    struct function *functions; /* of the program, by index */
} module;

typedef struct function {
    module *of;
    int index;
    uint32_t dynamic_most;
} function;

typedef enum { OP_KERNEL, OP_COPY, OP_SET, OP_NOTHING, OP_GRAPH } op_kind;

/* One piece of work of a stream or of a graph. */
typedef struct op {
    op_kind kind;
    context *cx;
    function *fn; /* OP_KERNEL */
    uint32_t grid[3], dim[3], dynamic;
    uint8_t *params;
    bool depends, held; /* it may begin while the kernel before it runs; which it does */
    bool ended;
    uint64_t to, from; /* OP_COPY, OP_SET: device addresses, or host addresses */
    bool to_host, from_host;
    uint8_t *staged; /* a copy of pageable memory that was taken at the call */
    size_t bytes;
    uint32_t value;
    int unit; /* of OP_SET: 1 or 4 bytes */
    struct graph_run *run;
    launch *running;
    int n_wait;
    struct {
        struct stream *s;
        uint64_t count;
    } * waits;
    struct op *next;
} op;

op *op_new(op_kind kind, context *cx);
void op_free(op *o);
/* A copy for a graph that is replayed. */
op *op_copy(const op *o);
/* Goes on with it; true when it is done. A fault breaks the context. */
bool op_step(op *o);
/* Whether `next`, right behind o, may begin before o has ended. */
bool op_lets_begin(const op *o, const op *next);
/* Whether a kernel waits for something (machine.h). */
bool op_waits(void);
/* Sleeps where for some time nothing else went on. */
void op_idle(void);

typedef struct stream {
    context *cx;
    bool blocking, alive;
    uint64_t queued, done;
    op *first, *last;
    struct capture *capture;
    int n_tail; /* of a capture: the nodes that the next one follows */
    int *tail;
    struct stream *next;
} stream;

/* The stream of a handle: NULL and the two constants are the context's own. NULL for a wrong one. */
stream *stream_of(CUstream s);
/* Gives o to the stream, or to the graph that captures it. o is the stream's from then on, also after an error. */
CUresult stream_add(stream *s, op *o);
/* Runs work in an order of the seed's until the stream has done count. */
CUresult stream_run_until(stream *s, uint64_t count);
CUresult stream_run_context(context *cx);
/* No stream of any context is captured by c any more. */
void stream_leave_capture(const struct capture *c);
/* The driver knows of a context that streams may lie in. */
void stream_know_context(context *cx);
/* Frees all streams of a context that has ended. */
void stream_forget_context(context *cx);
/* A little work of somebody's. False where nothing could go on. */
bool stream_progress(void);

typedef struct event {
    context *cx;
    bool timed, recorded;
    stream *s;
    uint64_t count;
    double at; /* ms */
    struct capture *capture;
    int n_tail;
    int *tail;
} event;

/* Work that is being captured, then a graph. */
typedef struct node {
    op *o;
    int n_after;
    int *after;
} node;
typedef struct capture {
    int mode;
    bool broken, ended; /* ended: only events remember it */
    stream *origin;
    pthread_t thread;
    int n_node;
    node *nodes;
    struct capture *next;
} capture;

/* Adds o to the stream's capture. */
CUresult capture_add(stream *s, op *o);
/* CUDA_SUCCESS where this thread may do what a capture forbids; else the capture is broken. */
CUresult capture_forbids(void);
/* An event of a capture stands for its stream's nodes; a stream that waits for it joins. */
void capture_record(event *e, stream *s);
/* The capture that the event was recorded in, while it lasts. */
struct capture *capture_of(const event *e);
CUresult capture_wait(stream *s, const event *e);
/* A graph on its way: step it; true when done. */
bool graph_run_step(struct graph_run *r);
void graph_run_free(struct graph_run *r);
