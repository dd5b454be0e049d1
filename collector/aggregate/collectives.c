#include "aggregate/collectives.h"

#include <stddef.h>
#include <string.h>

/* Renames of NCCL's kernels changed their case, and other makers' libraries keep the word. */
static const char *const libraries[] = {"nccl", "rccl",        "oneccl",
                                        "hccl", "mscclKernel", "nvshmem"};

/* Kernels that read their peers' memory themselves. */
static const char *const kernels[] = {
    "cross_device_reduce_", /* vLLM, SGLang, AITER */
    "deep_ep::intranode",
    "deep_ep::internode", /* dispatch, combine and their notices */
    "one_shot_all_reduce",
    "two_shot_all_reduce", /* torch's symmetric memory */
    "multimem_all_reduce",
    "multimem_all_gather",
    "userbuffers_", /* TransformerEngine */
};

bool collectives_has_kernel(const char *name)
{
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
        if (strcasestr(name, libraries[i]) != NULL)
            return true;
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
        if (strstr(name, kernels[i]) != NULL)
            return true;
    return false;
}
