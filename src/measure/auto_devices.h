/* auto_devices.h - `--devices auto --peers a:7071,b:7071`: finds the devices, groups and shares that make a token
 * fastest.
 *
 * First the layers are spread over all devices of this process and of the nodes, and a short text is run: what a layer
 * takes on each device, alone and while all compute. Links are measured. From that the time of every layout is computed
 * (plan/layout.h); the best few are tried, and the fastest stays. */
#pragma once
#include "engine/engine.h"
#include "models/model.h"

/* Appends the list of devices. Nodes that cannot be reached, or do not have the model, are left out with a warning. The
 * model stays the caller's. */
int auto_devices(buf *out, model *m, const engine_options *o, err *e);
