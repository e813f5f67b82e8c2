/* kept.cuh - a number that is computed once: without it the compiler does so again in each turn of a loop. */
#pragma once

__device__ __forceinline__ int kept(int n)
{
    asm volatile("" : "+r"(n));
    return n;
}
