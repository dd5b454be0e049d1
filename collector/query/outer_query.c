/* Outermost ops of a file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "query/ops_query.h"
#include "query/pick.h"

static int by_total(const void *left, const void *right)
{
    const struct outer_row *a = left, *b = right;

    if (a->total_ns != b->total_ns)
        return a->total_ns > b->total_ns ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int fill(const struct process *process, struct outer_answer *answer)
{
    struct outer_row data = {.name = "DataLoader"};

    if (!ARENA_LIST(&answer->head.arena, answer->rows, process->linked_count + 1))
        return -ENOMEM;
    for (uint32_t text = 0; text < process->linked_count; text++) {
        const struct process_linked *linked = &process->linked[text];
        const char *name = texts_get(process->texts, text);
        bool loads = strncmp(name, "enumerate(DataLoader)", 21) == 0;
        struct outer_row *row = loads ? &data : &answer->rows[answer->row_count];

        if (linked->outer_count == 0)
            continue;
        if (!loads)
            *row = (struct outer_row){.name = name};
        row->count += linked->outer_count;
        row->total_ns += linked->outer_ns;
        answer->row_count += !loads;
    }
    if (data.count > 0)
        answer->rows[answer->row_count++] = data;
    return 0;
}

int outer_query(struct store *store, const struct selection *selection, uint32_t k,
                struct outer_answer *answer)
{
    struct pick pick;

    *answer = (struct outer_answer){0};
    int error = pick_open(&pick, store, selection, &answer->head);

    if (error != 0)
        return error;
    error = fill(pick.process, answer);
    if (error == 0) {
        qsort(answer->rows, answer->row_count, sizeof(*answer->rows), by_total);
        answer->row_count = answer->row_count < k ? answer->row_count : k;
        for (uint32_t i = 0; i < answer->row_count; i++)
            answer->rows[i].name =
                arena_text(&answer->head.arena, answer->rows[i].name);
    }
    pick_end(&pick);
    return error;
}
