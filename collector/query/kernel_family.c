#include "query/kernel_family.h"

#include <string.h>

#include "aggregate/collectives.h"

static bool has_one(const char *name, const char *const *parts)
{
    for (; *parts != NULL; parts++)
        if (strstr(name, *parts) != NULL)
            return true;
    return false;
}

/* AMD's products: after how each matrix lies stands the type of what they read, as in
 * Cijk_Ailk_Bljk_SB_MT64x64x16; behind it come sizes. `types` with its underscores. */
static bool is_tensile(const char *name, const char *const *types)
{
    const char *at = strncmp(name, "Cijk_", 5) == 0 ? strchr(name + 5, '_') : NULL;

    at = at == NULL ? NULL : strchr(at + 1, '_');
    for (; at != NULL && *types != NULL; types++)
        if (strncmp(at, *types, strlen(*types)) == 0)
            return true;
    return false;
}

/* Products of 16-bit numbers that are summed in float32, on the other cores: what reads and
 * writes stands before and behind, as in volta_fp16_sgemm_fp16_128x128_nt. */
static bool is_half(const char *name)
{
    static const char *const names[] = {"fp16_sgemm", "fp16_scudnn", "bf16_sgemm",
                                        "bf16_scudnn", NULL};

    return has_one(name, names);
}

/* Products: those on tensor cores are called tensorop, hmma, tf32, or by their types. */
static bool is_float32(const char *name)
{
    static const char *const names[] = {"sgemm",
                                        "scudnn",
                                        "engine<float,",
                                        "f32f32_f32f32",
                                        "fprop_implicit_gemm_f32f32",
                                        NULL};

    static const char *const tensile[] = {"_SB_", "_S_B_", NULL};

    if (strstr(name, "tensorop") != NULL || strstr(name, "tf32") != NULL ||
        is_half(name))
        return false;
    if (strstr(name, "winograd") != NULL && strstr(name, "<float") != NULL)
        return true;
    return has_one(name, names) || is_tensile(name, tensile);
}

/* Products say so, and torch's functors name the type of what they read first; a double
 * elsewhere is a constant, such as the learning rate of a fused optimizer. */
static bool is_float64(const char *name)
{
    static const char *const names[] = {
        "dgemm",           "f64f64_f64",     "_d884gemm",
        "engine<double,",  "Functor<double", "Functor_add<double",
        "ReduceOp<double", "kernel<double,", NULL};
    static const char *const tensile[] = {"_DB_", "_D_B_", NULL};

    return has_one(name, names) || is_tensile(name, tensile);
}

/* cuDNN's attention has its passes named as convolutions have theirs. */
bool kernel_is_convolution(const char *name)
{
    static const char *const attention[] = {"sdpa", "flash", "fmha", "attention", NULL};
    static const char *const names[] = {"fprop",    "dgrad",  "wgrad",   "convolve",
                                        "winograd", "scudnn", "conv2d_", NULL};

    return has_one(name, names) && !has_one(name, attention);
}

/* CUTLASS names its kernels by how many numbers they read at once: 8 of two bytes fill a
 * load, 1 and 2 are what odd dimensions leave. Where a device has tensor cores, cuBLAS and
 * cuDNN leave 16-bit products of such dimensions to the other ones. */
static bool is_unaligned(const char *name)
{
    static const char *const devices[] = {"volta_", "turing_", "ampere_", NULL};
    const char *align = strstr(name, "_align");

    if (is_half(name))
        return has_one(name, devices);

    return align != NULL && (align[6] == '1' || align[6] == '2') &&
           (align[7] < '0' || align[7] > '9') && strstr(name, "tensorop") != NULL;
}

/* Products of that shape are of TF32, but for those that name 16-bit inputs. */
static bool is_tf32(const char *name)
{
    const char *shape = strstr(name, "tensorop_s1688");

    return strstr(name, "tf32") != NULL || strstr(name, "tfloat32") != NULL ||
           (shape != NULL && strstr(shape, "f16") == NULL);
}

/* Torch's: of short rows softmax_warp_forward<..., 9, is it a logarithm, is it masked>. */
static bool is_softmax(const char *name)
{
    static const char *const names[] = {"cunn_SoftMax", "softmax_warp_", NULL};

    return has_one(name, names) && strstr(name, "LogSoftMax") == NULL &&
           strstr(name, ", true, ") == NULL;
}

enum kernel_family kernel_family(const char *name)
{
    if (strcmp(name, "CUDA graph") == 0)
        return KERNEL_GRAPH;
    if (strstr(name, "nchwToNhwc") != NULL || strstr(name, "nhwcToNchw") != NULL)
        return KERNEL_LAYOUT;
    if (collectives_has_kernel(name))
        return KERNEL_COLLECTIVE;
    if (is_float64(name))
        return KERNEL_FLOAT64;
    if (is_float32(name))
        return KERNEL_FLOAT32;
    if (is_unaligned(name))
        return KERNEL_UNALIGNED;
    if (is_tf32(name))
        return KERNEL_TF32;
    if (is_softmax(name))
        return KERNEL_SOFTMAX;
    return strstr(name, "elementwise_kernel") != NULL ? KERNEL_ELEMENTWISE
                                                      : KERNEL_OTHER;
}

bool kernel_uses_tensor_cores(const char *name)
{
    /* Kernels beside the products, under the same name; and products of the same libraries
     * on the other cores. */
    static const char *const none[] = {"flash_bwd_dot",
                                       "flash_bwd_convert",
                                       "flash_bwd_clear",
                                       "bwd_preprocess",
                                       "_combine_kernel",
                                       "SplitKVCombine",
                                       "SubTensorOp", /* MIOpen's: tensors, no cores */
                                       "_ffma",
                                       "_sm50",
                                       NULL};
    static const char *const marks[] = {"h884",
                                        "s884",
                                        "d884",
                                        "h1688",
                                        "s1688",
                                        "c1688",
                                        "i8816",
                                        "i16832",
                                        "16816",
                                        "16832",
                                        "hmma",
                                        "imma",
                                        "wmma",
                                        "wgmma",
                                        "gmma",
                                        "tmaumma",
                                        "warpgroup",
                                        "tensorop",
                                        "_tensor8x8",
                                        "_tensor16x8",
                                        "tcgen05",
                                        "tfloat32",
                                        "mfma",
                                        "_xdl",  /* AMD's matrix instructions */
                                        "_gtcx", /* convolutions made of them */
                                        "_sm100f",
                                        "xmma_gemm",
                                        "xmma_implicit_gemm",
                                        "xmma_sparse",
                                        "xmma_warp_specialized",
                                        "nvjet_",
                                        "flash_fwd",
                                        "flash_bwd",
                                        "FlashAttnFwdSm",
                                        "FlashAttnBwdSm",
                                        "fmha_",
                                        "fmhaSm",
                                        "BlockFmha",
                                        "attn_fwd", /* Triton's, by tl.dot */
                                        "attn_bwd",
                                        "_matmul_ogs",
                                        "unified_attention_",
                                        "sdpa_sm"};

    if (has_one(name, none))
        return false;
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        if (strcasestr(name, marks[i]) != NULL)
            return true;
    /* AMD's products name the matrix instruction: ..._MI16x16x1_... */
    return strncmp(name, "Cijk_", 5) == 0 && strstr(name, "_MI") != NULL &&
           strstr(name, "_MI")[3] >= '1' && strstr(name, "_MI")[3] <= '9';
}
