/* plant.h - faults that a test plants in the PTX that a module is loaded from, and which of its lines have run, where
 * it can plant them: plant_faults.py.
 *
 *   SOFT_GPU_PLANT=FILE   three lines: the number of a line, what it says, what it shall say. A text whose line says
 *                         something else stays as it is
 *   SOFT_GPU_DROP=copy:12 the 12th copy is answered and not done; kernel:12; graph:12: the 12th launch of a graph, or
 *                         the next one that follows a graph of fewer blocks, runs that other one
 *   SOFT_GPU_STOP=pick:12 the device that is to run the 12th kernel of this name runs neither this one nor any later
 *                         one, and says that it has
 *   SOFT_GPU_HANG=pick:12 that device never ends this kernel, nor anything later
 *   SOFT_GPU_COVER=FILE   when a module goes, its lines that have run are added: name of its last function, number */
#pragma once
#include "tests/gpu/ptx_program.h"

/* The text with the fault, or NULL: as it is; free(). */
char *plant_text(const char *text);
/* Whether SOFT_GPU_DROP means this one: "copy:" each time that a copy is done. */
bool plant_now(const char *what);
/* Whether SOFT_GPU_STOP means this kernel. */
bool plant_stops(const char *kernel);
/* Whether SOFT_GPU_HANG means this kernel. */
bool plant_hangs(const char *kernel);
/* Makes p note what runs, where SOFT_GPU_COVER asks for it; and writes it down. */
void plant_cover(program *p);
void plant_covered(const program *p);
