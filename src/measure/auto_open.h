/* auto_open.h - an engine as the flags of a command say: what takes further engines is opened around engine_open. */
#pragma once
#include "engine/engine.h"

/* As engine_open, with the devices of engine_options.peers that make a token fastest (auto_devices.h), and the model
 * that engine_options.draft names (engine/draft_model.h). */
int auto_open(engine **out, const engine_options *o, err *e);
