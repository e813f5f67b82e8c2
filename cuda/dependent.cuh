/* dependent.cuh - kernels that begin while the one before them in the stream still runs (programmatic dependent launch,
 * CUDA Programming Guide): blocks find their place, and products ask for their first weights, before it has ended.
 *
 * Each kernel of fast.cu lets the next one begin at once, and each of its blocks waits for the one before on every way to
 * its end: so what ends has seen all earlier ones end, and a wait for the last one is a wait for all. Before the wait a
 * kernel reads what no kernel of the stretch writes (weights, the step), and writes nothing. What others wrote is not read
 * by __ldg, whose memory has to stay as it is while a kernel runs.
 *
 * The instructions are of capability 9.0. PTX for 8.0 has them as comments, which are taken away for 9.0 and later
 * (cuda_image.c; the Makefile, for machine code). */
#pragma once

/* The next kernel may begin when all blocks of this one have come here. */
__device__ __forceinline__ void let_next_begin()
{
    asm volatile("// griddepcontrol.launch_dependents;" ::: "memory");
}

/* Goes on when the kernel before has ended, and sees all that it wrote. */
__device__ __forceinline__ void wait_for_last() { asm volatile("// griddepcontrol.wait;" ::: "memory"); }

/* Both, for kernels that have nothing to do before. */
__device__ __forceinline__ void begin_in_turn()
{
    let_next_begin();
    wait_for_last();
}
