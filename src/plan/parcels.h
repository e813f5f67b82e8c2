/* parcels.h - rows that pass from a group to later ones without the host: of each step under way, crossing and rank
 * that writes it, memory on its device from which devices of the same backend take them (row_ways.parcel_take).
 *
 * Rows that are coded on their way, and those of a step with taps, pass through memory of the step as between any
 * devices. */
#pragma once
#include "plan/plan_state.h"

/* Parcels of a step; after an error too: parcels_close. */
int parcels_open(const plan *l, flight *f, err *e);
void parcels_close(const plan *l, flight *f);
/* That from which rank `to` takes what rank `from` wrote of crossing k in this step; NULL: there is none. */
parcel *parcel_for(const plan *l, const flight *f, uint32_t k, const plan_rank *from, const plan_rank *to);
/* That which rank `from` fills; NULL: none. */
parcel *parcel_from(const plan *l, const flight *f, uint32_t k, const plan_rank *from);
/* Whether some device here takes these rows otherwise, or a rank elsewhere does. */
bool parcels_leave(const plan *l, const flight *f, uint32_t k, const plan_rank *from);
