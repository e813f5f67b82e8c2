/* backend_list.h - the backends of this build, the preferred first: "auto" is the first. */
#pragma once
#include "cpu/cpu_backend.h"

#define BACKEND_LIST(X) X(cpu_backend)
