/* gemm.cu - the one kernel of the stand-in for cuBLAS: c[m of n][n of m], columns first, = transpose(a) * b. It sums from
 * the last element to the first, by halves: like cuBLAS in no order that a definition has. */
__device__ static float element(const void *from, int type, long long i)
{
    if (type == 0) return static_cast<const float *>(from)[i];
    const unsigned short h = static_cast<const unsigned short *>(from)[i];
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(h));
    return type == 2 ? wide : __uint_as_float((unsigned)h << 16);
}

extern "C" __global__ void gemm(const void *a, const void *b, float *c, int m, int n, int k, int lda, int ldb, int ldc,
                                int type)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x, row = i % m, column = i / m;
    if (column >= n) return;
    float sum[2] = {0, 0};
    for (int at = k - 1; at >= 0; at--)
        sum[at < k / 2] =
            fmaf(element(a, type, row * lda + at), element(b, type, column * ldb + at), sum[at < k / 2]);
    c[column * ldc + row] = sum[0] + sum[1];
}
