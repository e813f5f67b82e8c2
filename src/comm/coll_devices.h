/* coll_devices.h - a reduction between devices that their backend joins (join_ways), measured: a program that is
 * nothing but one sum is run on all of them. The time is that of the step, with what the host does for it. */
#pragma once
#include "comm/coll_measure.h"
#include "core/backend.h"

typedef struct coll_devices coll_devices;

/* Whether devices of this backend may be joined, and make sums so. */
bool coll_devices_can(const backend *be, const coll_kind *kind);
/* Devices of these numbers of the notation, for sums of rows * cols elements. */
int coll_devices_open(coll_devices **out, const backend *be, const int *number, int ranks, int64_t rows, int64_t cols,
                      err *e);
/* The score has what ranks on processors would have sent; sockets are 0. ERR_USAGE: the devices cannot read each
 * other's memory. */
int coll_devices_measure(coll_devices *d, const coll_test *t, coll_score *to, err *e);
/* The same by the sum of the backend's library (library_ways), of codec f32 or f16, after its `find`. The kind of such
 * a test is coll_library. What its ranks send, nobody knows: no payload. */
extern const coll_kind coll_library;
int coll_devices_measure_library(coll_devices *d, const coll_test *t, coll_score *to, err *e);
void coll_devices_close(coll_devices *d); /* NULL ok */
