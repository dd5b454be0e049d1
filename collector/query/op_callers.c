/* From which function of the job ops are called, and in which module most of their time lies:
 * of trace files in which the ops are known by stack or by the innermost module that called
 * them. Torch tells of a frame where its function begins; some old files have the very line.
 * Backward is called by no module. */
#include <ctype.h>
#include <string.h>

#include "query/parts.h"

/* The dearest, of all ops together. */
#define STACKS 300u

/* An op that is called from more has none that most of it comes from. */
#define CALLERS 32u

/* "train.py(31): main", and not torch's own code nor what Python has built in. */
static bool is_own(const char *frame, size_t length)
{
    static const char *const others[] = {"torch/", "-packages/torch/", "runpy.py(", "<",
                                         "nn.Module:"};
    char text[512];

    length = length < sizeof(text) - 1 ? length : sizeof(text) - 1;
    memcpy(text, frame, length);
    text[length] = '\0';
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const char *at = strstr(text, others[i]);

        if (at != NULL && (at == text || others[i][0] == '-'))
            return false;
    }
    const char *line = strstr(text, ".py(");

    return line != NULL && isdigit((unsigned char)line[4]);
}

/* The innermost own frame of a stack, as "main (train.py:31)"; NULL: none of those known. */
static const char *caller_of(struct arena *arena, const char *stack)
{
    for (const char *at = stack; *at != '\0';) {
        size_t length = strcspn(at, ";");

        if (is_own(at, length)) {
            const char *number = strstr(at, ".py(") + 4;
            size_t digits = strspn(number, "0123456789"),
                   path = (size_t)(number - 1 - at);
            const char *name = number + digits;

            name += strspn(name, "): ");
            return arena_print(arena, "%.*s (%.*s:%.*s)", (int)(at + length - name),
                               name, (int)path, at, (int)digits, number);
        }
        at += length + (at[length] == ';');
    }
    return NULL;
}

struct caller {
    const char *text;
    double ns;
};

/* The one that at least half of the op's time comes from; "" none. */
static const char *main_caller(struct arena *arena, const struct op_row *row,
                               const struct ops_answer *stacks)
{
    struct caller callers[CALLERS] = {{.text = NULL}};
    uint32_t count = 0;

    for (uint32_t i = 0; i < stacks->row_count; i++) {
        const struct op_row *stack = &stacks->rows[i];
        const char *text = strcmp(stack->name, row->name) == 0
                               ? caller_of(arena, stack->detail)
                               : NULL;
        uint32_t at = 0;

        while (text != NULL && at < count && strcmp(callers[at].text, text) != 0)
            at++;
        if (text == NULL || at == CALLERS)
            continue;
        count += at == count;
        callers[at].text = text;
        callers[at].ns += stack->self_ns;
        if (callers[at].ns >= row->self_ns / 2)
            return text;
    }
    return "";
}

int parts_callers(const struct pick *pick, const struct steps_answer *steps,
                  struct ops_answer *cpu)
{
    struct ops_request request = {.device = OPS_CPU, .by = GROUP_STACK, .k = STACKS};
    struct ops_answer stacks = {0};
    struct pick part = pick_part(pick, &stacks.head);

    for (uint32_t i = 0; i < ops_held(cpu); i++)
        cpu->rows[i].caller = "";
    if (pick->process->groups[GROUP_STACK] == NULL)
        return 0;
    int error = parts_ops(&part, &request, steps, &stacks);

    for (uint32_t i = 0; error == 0 && i < ops_held(cpu); i++)
        cpu->rows[i].caller = main_caller(&cpu->head.arena, &cpu->rows[i], &stacks);
    answer_free(&stacks.head);
    return error;
}

/* ---- modules ----------------------------------------------------------------------- */

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

int parts_modules(const struct pick *pick, const struct steps_answer *steps,
                  struct ops_answer *cpu)
{
    double device_ns = 0; /* of all that ops launched */
    struct ops_answer rows = {0};
    struct module modules[MODULES];
    struct pick part = pick_part(pick, &rows.head);
    uint32_t count = 0;

    cpu->module.name = "";
    if (pick->process->groups[GROUP_MODULE] == NULL)
        return 0;
    for (uint32_t i = 0; i < pick->process->linked_count; i++)
        device_ns += (double)pick->process->linked[i].device_self_ns;
    struct ops_request request = {.by = GROUP_MODULE,
                                  .sort =
                                      device_ns > 0 ? OPS_BY_DEVICE_SELF : OPS_BY_SELF,
                                  .k = ROWS};
    int error = parts_ops(&part, &request, steps, &rows);

    for (uint32_t i = 0; error == 0 && i < rows.row_count; i++) {
        const struct op_row *row = &rows.rows[i];
        bool own = row->detail[0] != '\0' && strcmp(row->kind, "op") == 0;
        struct module *module = own ? find_or_add(modules, &count, row->detail) : NULL;

        if (module == NULL)
            continue;
        module->host_ns += row->per_step_ns > 0 ? row->per_step_ns : 0;
        module->device_ns += row->device_self_ns > 0 ? row->device_self_ns : 0;
    }
    if (error == 0)
        choose(modules, count, device_ns, cpu);
    answer_free(&rows.head);
    return error;
}
