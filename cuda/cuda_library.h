/* cuda_library.h - the functions of a library that is found at run time. */
#pragma once
#include <stddef.h>

/* The addresses of n functions of an open library, by their names. Returns the first name that it lacks; NULL: none. */
const char *cuda_library_find(void *from, const char *const *names, size_t n, void **found);
