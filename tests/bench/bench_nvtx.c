/* The cost of an NVTX push and pop through the injection, against one clock read; two
 * are in it. NVTX itself is played by this file: a table of function pointers. */
#include "bench/measure.h"
#include "probe/nvtx.h"
#include "probe/probe.h"

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

static double read_the_clock(uint64_t events, void *context)
{
    struct probe_thread *self = context;
    double begin = measure_now_ns();
    uint64_t sum = 0;

    for (uint64_t i = 0; i < events; i++)
        sum += probe_thread_ticks(self);
    __asm__ volatile("" ::"r"(sum));
    return measure_now_ns() - begin;
}

static double push_and_pop(uint64_t events, void *context)
{
    static const char *const names[] = {"forward", "backward", "all_reduce", "step"};
    int (*push)(const char *) = (int (*)(const char *))*slots[0][NVTX_RANGE_PUSH_A];
    int (*pop)(void) = (int (*)(void))*slots[0][NVTX_RANGE_POP];
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
    struct probe_thread *self = probe_enter();

    if (self == NULL)
        return 2;
    probe_leave(self);
    return measure(&(struct measure){.name = "NVTX push + pop / clock read",
                                     .run = push_and_pop,
                                     .reference = read_the_clock,
                                     .context = self,
                                     .events = 20000,
                                     .mark = 2.2});
}
