/* In which module most of the ops' time lies: of trace files in which the ops are known by
 * module, each by the innermost that called it. Backward is called by none. */
#include <string.h>

#include "query/parts.h"

/* Rows of an op in a module, the dearest: a module of more has at least so much. And modules
 * among them. */
#define ROWS    300u
#define MODULES 256u

struct module {
    const char *name;
    double host_ns, device_ns;
};

static struct module *find_or_add(struct module *modules, uint32_t *count,
                                  const char *name)
{
    uint32_t at = 0;

    while (at < *count && strcmp(modules[at].name, name) != 0)
        at++;
    if (at == MODULES)
        return NULL;
    if (at == *count)
        modules[(*count)++] = (struct module){.name = name};
    return &modules[at];
}

/* By device where one is known to work for them, else by the host. */
static void choose(const struct module *modules, uint32_t count, double device_ns,
                   struct ops_answer *cpu)
{
    struct op_module *most = &cpu->module;

    for (uint32_t i = 0; i < count; i++) {
        const struct module *module = &modules[i];
        double device_share = device_ns > 0 ? module->device_ns / device_ns : 0;
        bool more = device_ns > 0 ? device_share > most->device_share
                                  : module->host_ns > most->host_ns;

        if (more)
            *most = (struct op_module){.name = module->name,
                                       .host_ns = module->host_ns,
                                       .device_share = device_share};
    }
    most->count = count;
    most->name = most->name == NULL ? "" : arena_text(&cpu->head.arena, most->name);
}

/* What all ops launched. */
static double device_time(const struct process *process)
{
    double sum = 0;

    for (uint32_t i = 0; i < process->linked_count; i++)
        sum += (double)process->linked[i].device_self_ns;
    return sum;
}

int parts_modules(const struct pick *pick, const struct steps_answer *steps,
                  struct ops_answer *cpu)
{
    double device_ns = device_time(pick->process);
    struct ops_request request = {.device = OPS_CPU,
                                  .by = GROUP_MODULE,
                                  .sort =
                                      device_ns > 0 ? OPS_BY_DEVICE_SELF : OPS_BY_SELF,
                                  .k = ROWS};
    struct ops_answer rows = {.head = *pick->head};
    struct module modules[MODULES];
    struct pick part = *pick;
    uint32_t count = 0;

    cpu->module.name = "";
    if (pick->process->groups[GROUP_MODULE] == NULL)
        return 0;
    rows.head.arena = (struct arena){0};
    part.head = &rows.head;
    int error = parts_ops(&part, &request, steps, &rows);

    for (uint32_t i = 0; error == 0 && i < rows.row_count; i++) {
        const struct op_row *row = &rows.rows[i];
        double on_device = row->device_self_ns > 0 ? row->device_self_ns : 0;
        bool own = row->detail[0] != '\0' && strcmp(row->kind, "op") == 0;
        struct module *module = own ? find_or_add(modules, &count, row->detail) : NULL;

        if (module == NULL)
            continue;
        module->host_ns += row->per_step_ns > 0 ? row->per_step_ns : 0;
        module->device_ns += on_device;
    }
    if (error == 0)
        choose(modules, count, device_ns, cpu);
    answer_free(&rows.head);
    return error;
}
