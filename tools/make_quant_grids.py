#!/usr/bin/env python3
"""make_quant_grids.py - prints src/tensor/quant_grids.c: the code books of the IQ formats, as data.

The numbers are part of the file format (first published with ggml); they are taken from the Python package `gguf` (quants.py, grid_hex),
checked here for shape, and packed two bits (three levels) or four bits (eight levels) per weight, first weight in the lowest bits.

    python3 tools/make_quant_grids.py > src/tensor/quant_grids.c
"""
import numpy as np
from gguf import quants

TABLES = [  # name, class, bits per weight
    ("quant_grid_iq2_xxs", quants.IQ2_XXS, 2),
    ("quant_grid_iq2_xs", quants.IQ2_XS, 2),
    ("quant_grid_iq2_s", quants.IQ2_S, 2),
    ("quant_grid_iq3_xxs", quants.IQ3_XXS, 4),
    ("quant_grid_iq3_s", quants.IQ3_S, 4),
    ("quant_grid_iq1", quants.IQ1_S, 2),
]

print("""/* quant_grids.c - the code books of the IQ formats; made by tools/make_quant_grids.py, which says where they come from. */
#include "tensor/quant_grids.h"
""")
for name, cls, bits in TABLES:
    cls.init_grid()
    rows, width = cls.grid_shape
    grid = cls.grid.reshape(rows, width)
    level = {float(v): k for k, v in enumerate(cls.grid_map)}
    words = [sum(level[float(v)] << (bits * j) for j, v in enumerate(row)) for row in grid]
    assert len(words) == rows and max(words) < 65536 and width * bits == 16
    print(f"const uint16_t {name}[{rows}] = {{")
    for i in range(0, rows, 14):
        print("    " + " ".join(f"0x{w:04x}," for w in words[i:i + 14]))
    print("};\n" if cls is not TABLES[-1][1] else "};")
