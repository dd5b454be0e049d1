/* Ops by name; what is on one side alone is new or gone, or a kernel under another name. */
#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "report/compare.h"
#include "report/compare_parts.h"
#include "report/members.h"

#define FAMILY_BYTES 128

struct row {
    const cJSON *op;
    const char *name, *kind;
    struct row *twin; /* of the other side */
    double value, count;
    char family[FAMILY_BYTES]; /* "": it may be no renamed kernel */
};

#define SIDE_ROWS 2048u

/* Those of the base stand before those of the other: by address first the one, then the
 * other side, each as it is listed. */
struct pair {
    struct row rows[2 * SIDE_ROWS], *sorted[2 * SIDE_ROWS];
    unsigned base_count, count;
    double base_least, other_least; /* of the rows, where the list was cut; else 0 */
    const char *device;             /* "cpu", "cuda" */
    const char *key;                /* what is compared: "per_step_ms", "total_ms" */
    cJSON *list;
    unsigned gone, new;
};

/* What a driver's update leaves of a kernel's name: its letters, without template
 * arguments, parameters and numbers. */
static void read_family(struct row *row)
{
    const char *name = row->name;
    size_t length = 0;
    int depth = 0;

    if (strcmp(row->kind, "kernel") != 0 || !(row->count > 0))
        name = "";
    for (; *name != '\0' && length + 1 < FAMILY_BYTES; name++) {
        depth += *name == '<' || *name == '(';
        if (depth == 0 && isalpha((unsigned char)*name))
            row->family[length++] = (char)(*name | 0x20); /* a lower-case letter */
        depth -= (*name == '>' || *name == ')') && depth > 0;
    }
    row->family[length] = '\0';
}

/* Appends the rows of a side; the least of them, where the list was cut. */
static double read_side(struct pair *pair, const cJSON *document)
{
    const cJSON *op;
    double least = (double)INFINITY;
    unsigned count = 0;

    cJSON_ArrayForEach(op, MEMBER(document, "ops", pair->device))
    {
        struct row *row = &pair->rows[pair->count];

        if (count++ == SIDE_ROWS)
            break;
        *row = (struct row){.op = op,
                            .name = TEXT(op, "name"),
                            .kind = TEXT(op, "kind"),
                            .value = NUMBER(op, pair->key),
                            .count = NUMBER(op, "per_step_count")};
        read_family(row);
        least = row->value < least ? row->value : least;
        pair->sorted[pair->count++] = row;
    }
    return NUMBER(document, "ops", "total", pair->device) >
                   (count < SIDE_ROWS ? count : SIDE_ROWS)
               ? least
               : 0;
}

/* ---- twins -------------------------------------------------------------------------------- */

typedef int order_of_rows(const struct row *a, const struct row *b);

static int order_of_ops(const struct row *a, const struct row *b)
{
    int order = strcmp(a->name, b->name);

    return order != 0 ? order : strcmp(a->kind, b->kind);
}

static int order_of_families(const struct row *a, const struct row *b)
{
    return strcmp(a->family, b->family);
}

static int by_op(const void *a, const void *b)
{
    const struct row *left = *(struct row *const *)a, *right = *(struct row *const *)b;
    int order = order_of_ops(left, right);

    return order != 0 ? order : (left > right) - (left < right);
}

static int by_family(const void *a, const void *b)
{
    const struct row *left = *(struct row *const *)a, *right = *(struct row *const *)b;
    int order = order_of_families(left, right);

    return order != 0 ? order : (left > right) - (left < right);
}

/* Rows that are equal in an order: `base` of the base, then those of the other. */
typedef void match_group(struct row **group, unsigned base, unsigned count);

static void match_names(struct row **group, unsigned base, unsigned count)
{
    for (unsigned i = 0; i < base && base + i < count; i++) {
        group[i]->twin = group[base + i];
        group[base + i]->twin = group[i];
    }
}

/* The only one of `rows` without a twin that runs as often as `row`, or NULL. */
static struct row *only_candidate(struct row **rows, unsigned count,
                                  const struct row *row)
{
    struct row *found = NULL;

    for (unsigned i = 0; i < count; i++) {
        if (rows[i]->twin != NULL || fabs(rows[i]->count - row->count) > 1e-6)
            continue;
        if (found != NULL)
            return NULL;
        found = rows[i];
    }
    return found;
}

/* Kernels of one family that run equally often: with one candidate on either side there is
 * no doubt. */
static void match_family(struct row **group, unsigned base, unsigned count)
{
    for (unsigned i = 0; i < base && group[i]->family[0] != '\0'; i++) {
        struct row *twin;

        if (group[i]->twin != NULL)
            continue;
        twin = only_candidate(group + base, count - base, group[i]);
        if (twin == NULL || only_candidate(group, base, twin) != group[i])
            continue;
        group[i]->twin = twin;
        twin->twin = group[i];
    }
}

static void match_groups(struct pair *pair, order_of_rows *order, match_group *match)
{
    const struct row *first_other = pair->rows + pair->base_count;

    for (unsigned i = 0, end; i < pair->count; i = end) {
        unsigned base = 0;

        for (end = i;
             end < pair->count && order(pair->sorted[i], pair->sorted[end]) == 0; end++)
            base += pair->sorted[end] < first_other;
        match(pair->sorted + i, base, end - i);
    }
}

/* ---- rows of the answer --------------------------------------------------------------------- */

/* What is not there takes no time, and surely so. */
static const struct row none = {.name = "", .kind = ""};

static struct compare_number number_of(const struct pair *pair, const struct row *row)
{
    struct compare_number number = {0, 0};

    if (row == &none)
        return number;
    number = (struct compare_number){row->value, (double)NAN};
    if (strcmp(pair->key, "per_step_ms") == 0)
        /* By its upper end: the lower one stops at 0. */
        number.half =
            members_number(cJSON_GetArrayItem(MEMBER(row->op, "per_step_ci95_ms"), 1)) -
            number.value;
    return number;
}

static void add_row(struct pair *pair, const struct row *base, const struct row *other)
{
    static const struct compare_test strict = {COMPARE_OPS_STRICTNESS,
                                               COMPARE_OPS_FLOOR};
    struct compare_number before = number_of(pair, base),
                          after = number_of(pair, other);
    const struct row *named = other != &none ? other : base;
    cJSON *row = cJSON_CreateObject();
    const char *state = base == &none                    ? "new"
                        : other == &none                 ? "gone"
                        : order_of_ops(base, other) == 0 ? "same"
                                                         : "renamed";

    cJSON_AddStringToObject(row, "name", named->name);
    if (*TEXT(named->op, "short_name") != '\0')
        cJSON_AddStringToObject(row, "short_name", TEXT(named->op, "short_name"));
    cJSON_AddStringToObject(row, "kind", named->kind);
    cJSON_AddStringToObject(row, "device", pair->device);
    if (strcmp(state, "renamed") == 0)
        cJSON_AddStringToObject(row, "base_name", base->name);
    compare_put(row, "base_per_step_ms", before.value);
    compare_put(row, "per_step_ms", after.value);
    compare_put(row, "base_count", base->count);
    compare_put(row, "count", other->count);
    (void)compare_put_change(row, &before, &after, &strict);
    cJSON_AddStringToObject(row, "state", state);
    cJSON_AddItemToArray(pair->list, row);
}

static void add_device(struct pair *pair, const cJSON *base, const cJSON *other)
{
    pair->count = 0;
    pair->base_least = read_side(pair, base);
    pair->base_count = pair->count;
    pair->other_least = read_side(pair, other);
    qsort(pair->sorted, pair->count, sizeof(pair->sorted[0]), by_op);
    match_groups(pair, order_of_ops, match_names);
    qsort(pair->sorted, pair->count, sizeof(pair->sorted[0]), by_family);
    match_groups(pair, order_of_families, match_family);
    for (unsigned i = 0; i < pair->count; i++) {
        const struct row *row = &pair->rows[i];
        bool of_base = i < pair->base_count;

        /* Not listed there is not gone, where the list was cut above it. */
        if (row->twin == NULL &&
            row->value <= (of_base ? pair->other_least : pair->base_least))
            continue;
        pair->gone += of_base && row->twin == NULL;
        pair->new += !of_base && row->twin == NULL;
        if (of_base)
            add_row(pair, row, row->twin != NULL ? row->twin : &none);
        else if (row->twin == NULL)
            add_row(pair, &none, row);
    }
}

int compare_by_difference(const void *a, const void *b)
{
    double left = fabs(NUMBER(*(cJSON *const *)a, "diff_ms"));
    double right = fabs(NUMBER(*(cJSON *const *)b, "diff_ms"));

    return (left < right) - (left > right);
}

/* What changed first, by how much; then the rest likewise. */
static int by_weight(const void *a, const void *b)
{
    bool left = cJSON_IsTrue(MEMBER(*(cJSON *const *)a, "changed"));
    bool right = cJSON_IsTrue(MEMBER(*(cJSON *const *)b, "changed"));

    return left != right ? right - left : compare_by_difference(a, b);
}

void compare_add_ops(cJSON *object, const cJSON *base, const cJSON *other,
                     bool per_step)
{
    static const char *const devices[] = {"cpu", "cuda"};
    struct pair *pair = calloc(1, sizeof(*pair));

    if (pair == NULL)
        return;
    pair->list = cJSON_CreateArray();
    pair->key = per_step ? "per_step_ms" : "total_ms";
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        pair->device = devices[i];
        if (cJSON_IsArray(MEMBER(base, "ops", devices[i])) &&
            cJSON_IsArray(MEMBER(other, "ops", devices[i])))
            add_device(pair, base, other); /* not kept is not the same as gone */
    }
    cJSON_AddItemToObject(object, "ops", members_sorted(pair->list, by_weight));
    cJSON_AddNumberToObject(object, "new_ops", pair->new);
    cJSON_AddNumberToObject(object, "gone_ops", pair->gone);
    free(pair);
}
