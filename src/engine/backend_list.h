/* backend_list.h - the backends of this build, the preferred first: "auto" is the first. */
#ifndef ENGINE_BACKEND_LIST_H
#define ENGINE_BACKEND_LIST_H
#include "cpu/cpu_backend.h"

#define BACKEND_LIST(X) X(cpu_backend)

#endif
