#include "query/kernel_family.h"

#include <stdbool.h>
#include <string.h>

/* Products: those on tensor cores are called tensorop, hmma, tf32, or by their types. */
static bool is_float32(const char *name)
{
    static const char *const names[] = {"sgemm", "scudnn", "engine<float,",
                                        "f32f32_f32f32", "fprop_implicit_gemm_f32f32"};

    if (strstr(name, "tensorop") != NULL || strstr(name, "tf32") != NULL)
        return false;
    if (strstr(name, "winograd") != NULL && strstr(name, "<float") != NULL)
        return true;
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strstr(name, names[i]) != NULL)
            return true;
    return false;
}

enum kernel_family kernel_family(const char *name)
{
    if (strstr(name, "nchwToNhwc") != NULL || strstr(name, "nhwcToNchw") != NULL)
        return KERNEL_LAYOUT;
    if (is_float32(name))
        return KERNEL_FLOAT32;
    return strstr(name, "elementwise_kernel") != NULL ? KERNEL_ELEMENTWISE
                                                      : KERNEL_OTHER;
}
