/* cpu_backend.h - the CPU backend's one public name. Ordinal is unused; a share of the cores is dev_options.threads. */
#pragma once
#include "core/backend.h"

extern const backend cpu_backend;
