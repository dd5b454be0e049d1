#include "query/kernel_name.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "aggregate/collectives.h"

struct word {
    const char *at;
    size_t length;
};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is(struct word word, const char *text)
{
    return strlen(text) == word.length && memcmp(word.at, text, word.length) == 0;
}

static bool has(struct word word, const char *part)
{
    return memmem(word.at, word.length, part, strlen(part)) != NULL;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The next identifier from `at` on; length 0 at the end. */
static struct word next_word(const char *at)
{
    size_t length = 0;

    while (*at != '\0' && !is_letter(*at)) {
        /* The digits of 2ul are no word, nor what follows them. */
        bool digit = is_digit(*at);

        at++;
        while (digit && (is_letter(*at) || is_digit(*at)))
            at++;
    }
    while (is_letter(at[length]) || is_digit(at[length]))
        length++;
    return (struct word){at, length};
}

/* These carry any function over the elements: the function says what they do. */
static bool is_carrier(struct word base)
{
    return has(base, "elementwise_kernel") || has(base, "reduce_kernel") ||
           has(base, "multi_tensor_apply_kernel") || is(base, "Kernel") ||
           is(base, "Kernel2") || is(base, "device_kernel");
}

/* What stands around the function, and types. */
static bool is_wrapping(struct word word)
{
    static const char *const words[] = {
        "anonymous",
        "namespace",
        "void",
        "const",
        "unsigned",
        "int",
        "long",
        "short",
        "char",
        "float",
        "double",
        "bool",
        "true",
        "false",
        "BFloat16",
        "Half",
        "array",
        "lambda",
        "operator",
        "OpaqueType",
        "gpu_kernel_impl",
        "BinaryFunctor",
        "AUnaryFunctor",
        "BUnaryFunctor",
        "ReduceOp",
        "func_wrapper_t",
        "complex",
        "gpu_kernel_impl_nocast",
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (is(word, words[i]))
            return true;
    return has(word, "Metadata");
}

/* The kernel's own name: before its template's or its function's brackets. */
static struct word base_of(const char *name)
{
    struct word base = {name, 0};

    for (struct word word = next_word(name); word.length > 0;
         word = next_word(word.at + word.length)) {
        char behind = word.at[word.length];

        base = word;
        if (behind == '<' || behind == '(')
            break;
    }
    return base;
}

/* "elementwise" of "elementwise_kernel". */
static void drop_suffix(struct word *base)
{
    static const char suffix[] = "_kernel";
    size_t length = sizeof(suffix) - 1;

    if (base->length > length &&
        memcmp(base->at + base->length - length, suffix, length) == 0)
        base->length -= length;
}

/* Past an argument that is a number or a function (L...E) and past what names again what
 * was named before (S1_, T_): digits in them are no lengths. */
static const char *skip_mangled(const char *at)
{
    bool literal = *at == 'L' && (at[1] < '0' || at[1] > '9');
    size_t length = 1;

    if (literal)
        return at + strcspn(at, "E");
    if (*at == 'S' || *at == 'T')
        length += strspn(at + 1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return at + (at[length] == '_' ? length : 1);
}

/* The next identifier of a mangled name, which stands behind its length, but for
 * namespaces without a name; length 0 at the end. */
static struct word next_mangled(const char *at)
{
    while (*at != '\0') {
        struct word word = {at, 0};
        size_t length = 0;

        for (; is_digit(*word.at) && length < 1000; word.at++)
            length = 10 * length + (size_t)(*word.at - '0');
        while (word.length < length &&
               (is_letter(word.at[word.length]) || is_digit(word.at[word.length])))
            word.length++;
        if (length == 0 || word.length < length) {
            at = skip_mangled(at);
            continue;
        }
        if (strncmp(word.at, "_GLOBAL__N_", 11) != 0)
            return word;
        at = word.at + length;
    }
    return (struct word){at, 0};
}

/* The last of the identifiers that stand right behind each other: those before it say where
 * it is from. */
static struct word last_of_path(struct word word)
{
    while (word.length > 0) {
        const char *behind = word.at + word.length;
        struct word next = next_mangled(behind);

        if (*behind < '0' || *behind > '9' || next.length == 0)
            break;
        word = next;
    }
    return word;
}

/* "function (carrier)", of a carrier without its "_kernel". */
static void write_carried(struct word base, struct word function, char *text,
                          size_t size)
{
    drop_suffix(&base);
    (void)snprintf(text, size, "%.*s (%.*s)", (int)function.length, function.at,
                   (int)base.length, base.at);
}

/* As compilers write C++ names, where nobody has made them readable. ck_tile begins each of
 * its kernels in "kentry", which says nothing. */
static bool mangled_short_name(const char *name, char *text, size_t size)
{
    struct word base = last_of_path(next_mangled(name + 2));
    struct word inner = last_of_path(next_mangled(base.at + base.length));

    if (base.length > 0 && is(base, "kentry"))
        base = inner;
    if (base.length == 0)
        return false;
    if (is_carrier(base) && inner.length > 0)
        write_carried(base, inner, text, size);
    else
        (void)snprintf(text, size, "%.*s", (int)base.length, base.at);
    return true;
}

bool kernel_short_name(const char *name, char *text, size_t size)
{
    if (strncmp(name, "_Z", 2) == 0)
        return mangled_short_name(name, text, size);

    struct word base = base_of(name), function = {name, 0};

    if ((strchr(name, '<') == NULL && strstr(name, "::") == NULL) || base.length == 0)
        return false;
    if (is_carrier(base)) {
        /* What stands before "::" only says where the word behind it is from. */
        do {
            const char *behind = function.length > 0 ? function.at + function.length
                                                     : base.at + base.length;
            function = next_word(behind);
        } while (function.length > 0 &&
                 (strncmp(function.at + function.length, "::", 2) == 0 ||
                  is_wrapping(function)));
    }
    if (function.length == 0)
        (void)snprintf(text, size, "%.*s", (int)base.length, base.at);
    else
        write_carried(base, function, text, size);
    return true;
}

/* ---- what kind of work it does ----------------------------------------------------- */

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
    /* Kernels next to the products, under the same name, and products of the same libraries
     * on the other cores. MIOpen's SubTensorOp works on tensors and uses no such cores. */
    static const char *const none[] = {"flash_bwd_dot",   "flash_bwd_convert",
                                       "flash_bwd_clear", "bwd_preprocess",
                                       "_combine_kernel", "SplitKVCombine",
                                       "SubTensorOp",     "_ffma",
                                       "_sm50",           NULL};
    /* "_xdl" are AMD's matrix instructions, "_gtcx" convolutions made of them; attn_fwd and
     * attn_bwd are Triton's, by tl.dot. */
    static const char *const marks[] = {"h884",           "s884",
                                        "d884",           "h1688",
                                        "s1688",          "c1688",
                                        "i8816",          "i16832",
                                        "16816",          "16832",
                                        "hmma",           "imma",
                                        "wmma",           "wgmma",
                                        "gmma",           "tmaumma",
                                        "warpgroup",      "tensorop",
                                        "_tensor8x8",     "_tensor16x8",
                                        "tcgen05",        "tfloat32",
                                        "mfma",           "_xdl",
                                        "_gtcx",          "_sm100f",
                                        "xmma_gemm",      "xmma_implicit_gemm",
                                        "xmma_sparse",    "xmma_warp_specialized",
                                        "nvjet_",         "flash_fwd",
                                        "flash_bwd",      "FlashAttnFwdSm",
                                        "FlashAttnBwdSm", "fmha_",
                                        "fmhaSm",         "BlockFmha",
                                        "attn_fwd",       "attn_bwd",
                                        "_matmul_ogs",    "unified_attention_",
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
