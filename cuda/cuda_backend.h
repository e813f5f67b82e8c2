/* cuda_backend.h - NVIDIA GPUs as devices. The number of the notation, "cuda:1", is a device of the driver; without one
 * it is the first. */
#pragma once
#include "core/backend.h"

extern const backend cuda_backend;
