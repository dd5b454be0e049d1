/* The cost of an NVTX push and pop through the injection, against one clock read; two
 * are in it. NVTX itself is played by this file: a table of function pointers. */
#include "bench/probe_cost.h"
#include "probe/nvtx.h"

#define SLOTS 16

static nvtx_function functions[2][SLOTS];
static nvtx_function *slots[2][SLOTS];

static void nothing(void)
{
}

static int module_table(uint32_t module, nvtx_function ***table, unsigned *size)
{
    int which = module == NVTX_CORE2;

    if (module != NVTX_CORE && module != NVTX_CORE2)
        return 0;
    *table = slots[which];
    *size = SLOTS;
    return 1;
}

static const void *export_table(uint32_t id)
{
    static const struct nvtx_callbacks callbacks = {sizeof(callbacks), module_table};

    return id == NVTX_TABLE_CALLBACKS ? &callbacks : NULL;
}

static double push_and_pop(uint64_t events, void *context)
{
    static const char *const names[] = {"forward", "backward", "all_reduce", "step"};
    int (*push)(const char *) = (int (*)(const char *)) * slots[0][NVTX_RANGE_PUSH_A];
    int (*pop)(void) = (int (*)(void)) * slots[0][NVTX_RANGE_POP];
    double begin = measure_now_ns();

    (void)context;
    for (uint64_t i = 0; i < events; i++) {
        push(names[i % 4]);
        pop();
    }
    return measure_now_ns() - begin;
}

int main(void)
{
    for (int i = 0; i < 2 * SLOTS; i++) {
        functions[i / SLOTS][i % SLOTS] = nothing;
        slots[i / SLOTS][i % SLOTS] =
            i % SLOTS > 0 ? &functions[i / SLOTS][i % SLOTS] : NULL;
    }
    (void)measure_directory();
    if (probe_start(WIRE_ROLE_TRAINER) != 0 ||
        InitializeInjectionNvtx2(export_table) != 1)
        return 2;
    return measure_probe("NVTX push + pop / clock read", push_and_pop, 2.2);
}
