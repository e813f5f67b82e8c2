/* gguf_types.c - see gguf_types.h. */
#include "models/export/gguf_types.h"

#include <stddef.h>

dtype gguf_type_fitting(dtype want, int64_t cols)
{
    static const dtype smaller[][2] = {
        {DTYPE_Q2_K, DTYPE_Q4_0},     {DTYPE_Q3_K, DTYPE_Q4_0},      {DTYPE_Q4_K, DTYPE_Q4_0},
        {DTYPE_Q5_K, DTYPE_Q5_1},     {DTYPE_Q6_K, DTYPE_Q8_0},      {DTYPE_IQ4_XS, DTYPE_IQ4_NL},
        {DTYPE_IQ3_S, DTYPE_IQ4_NL},  {DTYPE_IQ3_XXS, DTYPE_IQ4_NL}, {DTYPE_IQ2_S, DTYPE_IQ4_NL},
        {DTYPE_IQ2_XS, DTYPE_IQ4_NL}, {DTYPE_IQ2_XXS, DTYPE_IQ4_NL}, {DTYPE_IQ1_M, DTYPE_IQ4_NL},
        {DTYPE_IQ1_S, DTYPE_IQ4_NL},  {DTYPE_TQ1_0, DTYPE_Q4_0},     {DTYPE_TQ2_0, DTYPE_Q4_0},
        {DTYPE_Q1_0, DTYPE_Q4_0},     {DTYPE_Q2_0, DTYPE_Q4_0},      {DTYPE_NVFP4, DTYPE_MXFP4}};
    for (size_t i = 0; i < sizeof smaller / sizeof *smaller; i++)
        if (want == smaller[i][0] && cols % dtype_info[want].weights) want = smaller[i][1];
    return cols % dtype_info[want].weights ? DTYPE_F16 : want;
}
