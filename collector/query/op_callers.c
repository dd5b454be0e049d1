/* From which function of the job ops are called: of trace files with stacks, in which the
 * ops are known by stack too. Torch tells of a frame where its function begins; some old
 * files have the very line. */
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
    struct ops_answer stacks = {.head = *pick->head};
    struct pick part = *pick;

    for (uint32_t i = 0; i < ops_held(cpu); i++)
        cpu->rows[i].caller = "";
    if (pick->process->groups[GROUP_STACK] == NULL)
        return 0;
    stacks.head.arena = (struct arena){0};
    part.head = &stacks.head;
    int error = parts_ops(&part, &request, steps, &stacks);

    for (uint32_t i = 0; error == 0 && i < ops_held(cpu); i++)
        cpu->rows[i].caller = main_caller(&cpu->head.arena, &cpu->rows[i], &stacks);
    answer_free(&stacks.head);
    return error;
}
