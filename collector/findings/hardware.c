/* What a device is: how fast its link is, and what it computes with: by its name, and where
 * nobody tells that, as in files without `deviceProperties`, or it is newer than this, by the
 * names of its kernels. */
#include <math.h>
#include <string.h>

#include "findings/rules.h"

/* Bytes a second and lane of each generation, each way, after its encoding (PCI Express
 * base specifications). */
static double lane_bytes_per_s(double generation)
{
    static const double of[] = {0, 0.25e9, 0.5e9, 0.985e9, 1.97e9, 3.94e9, 7.56e9};

    return generation >= 1 && generation < sizeof(of) / sizeof(of[0])
               ? of[(uint32_t)generation]
               : (double)NAN;
}

double link_bytes_per_s(const struct hardware_row *row)
{
    double lanes = row->pcie_width > 0 ? row->pcie_width : (double)NAN;

    return lane_bytes_per_s(row->pcie_most) * lanes;
}

double link_of_device(const struct rule_context *context,
                      const struct gpu_device *device)
{
    const struct hardware_row *row = rule_hardware(context, device);

    return row != NULL ? link_bytes_per_s(row) : (double)NAN;
}

enum generation {
    GENERATION_UNKNOWN, /* or without tensor cores */
    GENERATION_VOLTA,   /* and Turing: tensor cores for float16 */
    GENERATION_AMPERE,  /* and later: bfloat16 and TF32 too */
    GENERATION_CDNA,    /* of AMD: bfloat16 */
};

/* A number goes on in no other: a T400 is no T4, and has no tensor cores. */
static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names != NULL; names++) {
        const char *at = strstr(name, *names);

        if (at != NULL && strspn(at + strlen(*names), "0123456789") == 0)
            return true;
    }
    return false;
}

/* MI50 and what came before have no matrix cores. */
static bool is_cdna(const char *name)
{
    static const char *const chips[] = {"gfx908", "gfx90a", "gfx940", "gfx941",
                                        "gfx942", "gfx950", NULL};
    static const char instinct[] = "Instinct MI";
    const char *at = strstr(name, instinct);

    return is_one_of(name, chips) ||
           (at != NULL && strspn(at + strlen(instinct), "0123456789") >= 3);
}

static enum generation by_name(const char *name)
{
    static const char *const all[] = {
        "V100", "T4",   "A100",  "A10",   "A30",  "A40", "A16", "A2", "H100",
        "H200", "H20",  "H800",  "A800",  "L4",   "L40", "L20", "L2", "GH200",
        "B100", "B200", "GB200", "GB300", "B300", "RTX", NULL};
    static const char *const older[] = {"V100",      "T4",       "RTX 2060",
                                        "RTX 2070",  "RTX 2080", "Quadro RTX",
                                        "TITAN RTX", NULL};

    if (is_cdna(name))
        return GENERATION_CDNA;
    if (!is_one_of(name, all))
        return GENERATION_UNKNOWN;
    return is_one_of(name, older) ? GENERATION_VOLTA : GENERATION_AMPERE;
}

/* What came before Volta, those of Turing without, and what games are played with on AMD's. */
static bool has_none(const char *name)
{
    static const char *const all[] = {
        "P100", "P40",  "P4",    "K80",   "M60",   "M40",   "GTX",    "T400", "T500",
        "T550", "T600", "T1000", "T1200", "T2000", "MX450", "Radeon", NULL};

    return is_one_of(name, all);
}

/* Libraries name kernels after the first generation that they run on, and later ones run
 * some of them too. */
static enum generation by_kernel(const char *name)
{
    static const char *const volta[] = {"volta_", "turing_", "sm70", "sm75", NULL};
    static const char *const later[] = {
        "ampere_", "hopper", "nvjet_", "sm80",        "sm86",        "sm89",
        "sm90",    "sm100",  "sm120",  "cutlass_80_", "cutlass_90_", NULL};

    if (strncmp(name, "Cijk_", 5) == 0)
        return kernel_uses_tensor_cores(name) ? GENERATION_CDNA : GENERATION_UNKNOWN;
    if (is_one_of(name, later))
        return GENERATION_AMPERE;
    return is_one_of(name, volta) ? GENERATION_VOLTA : GENERATION_UNKNOWN;
}

static enum generation generation_of(const struct rule_context *context,
                                     const struct gpu_device *device)
{
    const struct ops_answer *cuda = &context->summary->cuda;
    const char *name = device->name != NULL ? device->name : "";
    enum generation newest = by_name(name);

    if (newest != GENERATION_UNKNOWN || has_none(name))
        return newest;
    for (uint32_t i = 0; i < cuda->judged_count; i++) {
        enum generation least = by_kernel(cuda->rows[i].name);

        newest = least > newest ? least : newest;
    }
    return newest;
}

bool generation_has_tensor_cores(const struct rule_context *context,
                                 const struct gpu_device *device)
{
    return generation_of(context, device) >= GENERATION_VOLTA;
}

bool generation_has_bfloat16(const struct rule_context *context,
                             const struct gpu_device *device)
{
    return generation_of(context, device) >= GENERATION_AMPERE;
}

bool generation_is_cdna(const struct rule_context *context,
                        const struct gpu_device *device)
{
    return generation_of(context, device) == GENERATION_CDNA;
}
