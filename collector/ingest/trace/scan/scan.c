#include "ingest/trace/scan/scan.h"

#ifdef TRACE_SCAN_X86
static bool has(enum trace_scan_kind kind)
{
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("pclmul") &&
                __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                __builtin_cpu_supports("popcnt");

    if (kind == TRACE_SCAN_AVX2)
        return avx2;
    return avx2 && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vbmi2");
}

enum trace_scan_kind trace_scan_best(void)
{
    return has(TRACE_SCAN_AVX512) ? TRACE_SCAN_AVX512
           : has(TRACE_SCAN_AVX2) ? TRACE_SCAN_AVX2
                                  : TRACE_SCAN_SCALAR;
}

trace_scan *trace_scan_choose(enum trace_scan_kind kind)
{
    if (kind == TRACE_SCAN_SCALAR)
        return trace_scan_scalar;
    if (kind == TRACE_SCAN_BEST || !has(kind))
        kind = trace_scan_best();
    return kind == TRACE_SCAN_AVX512 ? trace_scan_avx512
           : kind == TRACE_SCAN_AVX2 ? trace_scan_avx2
                                     : trace_scan_scalar;
}
#else
enum trace_scan_kind trace_scan_best(void)
{
    return TRACE_SCAN_SCALAR;
}

trace_scan *trace_scan_choose(enum trace_scan_kind kind)
{
    (void)kind;
    return trace_scan_scalar;
}
#endif
