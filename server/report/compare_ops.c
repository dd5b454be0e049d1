/* Ops by name; what is on one side alone is new or gone, or a kernel under another name. */
#include "report/compare_parts.h"

#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "report/compare.h"
#include "report/members.h"

#define FAMILY_BYTES 128

struct side {
    const cJSON *rows[2048];
    const cJSON *twin[2048]; /* of the other side */
    unsigned count;
    double least; /* of the rows, where the list was cut; else 0 */
};

struct pair {
    struct side base, other;
    const char *device; /* "cpu", "cuda" */
    const char *key;    /* what is compared: "per_step_ms", "total_ms" */
    cJSON *list;
    unsigned gone, new;
};

static void read_side(struct side *side, const cJSON *document, const char *device,
                      const char *key)
{
    const cJSON *row;

    side->count = 0;
    side->least = (double)INFINITY;
    cJSON_ArrayForEach(row, MEMBER(document, "ops", device))
    {
        double value = NUMBER(row, key);

        if (side->count == sizeof(side->rows) / sizeof(side->rows[0]))
            break;
        side->twin[side->count] = NULL;
        side->rows[side->count++] = row;
        side->least = value < side->least ? value : side->least;
    }
    if (!(NUMBER(document, "ops", "total", device) > side->count))
        side->least = 0;
}

static bool is_same_op(const cJSON *a, const cJSON *b)
{
    return strcmp(TEXT(a, "name"), TEXT(b, "name")) == 0 &&
           strcmp(TEXT(a, "kind"), TEXT(b, "kind")) == 0;
}

static void twins_by_name(struct pair *pair)
{
    for (unsigned i = 0; i < pair->base.count; i++)
        for (unsigned j = 0; j < pair->other.count; j++)
            if (pair->other.twin[j] == NULL &&
                is_same_op(pair->base.rows[i], pair->other.rows[j])) {
                pair->base.twin[i] = pair->other.rows[j];
                pair->other.twin[j] = pair->base.rows[i];
                break;
            }
}

/* What a driver's update leaves of a kernel's name: its letters, without template
 * arguments, parameters and numbers. */
static void family_of(const cJSON *row, char *family)
{
    const char *name = TEXT(row, "name");
    size_t length = 0;
    int depth = 0;

    for (; *name != '\0' && length + 1 < FAMILY_BYTES; name++) {
        depth += *name == '<' || *name == '(';
        if (depth == 0 && isalpha((unsigned char)*name))
            family[length++] = (char)(*name | 0x20); /* a lower-case letter */
        depth -= (*name == '>' || *name == ')') && depth > 0;
    }
    family[length] = '\0';
}

/* Both are kernels of one family that run equally often: with one candidate on either
 * side there is no doubt. */
static bool may_be_renamed(const cJSON *a, const cJSON *b)
{
    char families[2][FAMILY_BYTES];

    if (strcmp(TEXT(a, "kind"), "kernel") != 0 ||
        strcmp(TEXT(b, "kind"), "kernel") != 0 || !(NUMBER(a, "per_step_count") > 0) ||
        fabs(NUMBER(a, "per_step_count") - NUMBER(b, "per_step_count")) > 1e-6)
        return false;
    family_of(a, families[0]);
    family_of(b, families[1]);
    return families[0][0] != '\0' && strcmp(families[0], families[1]) == 0;
}

/* The only row of `side` without a twin that may be `row` renamed, or NULL. */
static const cJSON *only_candidate(const struct side *side, const cJSON *row,
                                   unsigned *at)
{
    const cJSON *found = NULL;

    for (unsigned i = 0; i < side->count; i++) {
        if (side->twin[i] != NULL || !may_be_renamed(side->rows[i], row))
            continue;
        if (found != NULL)
            return NULL;
        found = side->rows[i];
        *at = i;
    }
    return found;
}

static void twins_by_shape(struct pair *pair)
{
    for (unsigned i = 0; i < pair->base.count; i++) {
        unsigned there = 0, back = 0;
        const cJSON *row = pair->base.rows[i], *twin;

        if (pair->base.twin[i] != NULL)
            continue;
        twin = only_candidate(&pair->other, row, &there);
        if (twin == NULL || only_candidate(&pair->base, twin, &back) != row)
            continue;
        pair->base.twin[i] = twin;
        pair->other.twin[there] = row;
    }
}

static struct compare_number number_of(const struct pair *pair, const cJSON *row)
{
    const cJSON *ends = MEMBER(row, "per_step_ci95_ms");
    struct compare_number number = {.value = NUMBER(row, pair->key),
                                    .half = (double)NAN};

    if (strcmp(pair->key, "per_step_ms") == 0)
        /* By its upper end: the lower one stops at 0. */
        number.half = members_number(cJSON_GetArrayItem(ends, 1)) - number.value;
    return number;
}

/* What is not there takes no time, and surely so. */
static const struct compare_number nothing = {0, 0};

static void add_row(struct pair *pair, const cJSON *base, const cJSON *other)
{
    static const struct compare_test strict = {COMPARE_OPS_STRICTNESS,
                                               COMPARE_OPS_FLOOR};
    struct compare_number before = base ? number_of(pair, base) : nothing;
    struct compare_number after = other ? number_of(pair, other) : nothing;
    const cJSON *named = other ? other : base;
    cJSON *row = cJSON_CreateObject();
    const char *state = base == NULL              ? "new"
                        : other == NULL           ? "gone"
                        : is_same_op(base, other) ? "same"
                                                  : "renamed";

    cJSON_AddStringToObject(row, "name", TEXT(named, "name"));
    if (*TEXT(named, "short_name") != '\0')
        cJSON_AddStringToObject(row, "short_name", TEXT(named, "short_name"));
    cJSON_AddStringToObject(row, "kind", TEXT(named, "kind"));
    cJSON_AddStringToObject(row, "device", pair->device);
    if (strcmp(state, "renamed") == 0)
        cJSON_AddStringToObject(row, "base_name", TEXT(base, "name"));
    compare_put(row, "base_per_step_ms", before.value);
    compare_put(row, "per_step_ms", after.value);
    compare_put(row, "base_count", base ? NUMBER(base, "per_step_count") : 0);
    compare_put(row, "count", other ? NUMBER(other, "per_step_count") : 0);
    (void)compare_put_change(row, &before, &after, &strict);
    cJSON_AddStringToObject(row, "state", state);
    cJSON_AddItemToArray(pair->list, row);
}

static void add_device(struct pair *pair, const cJSON *base, const cJSON *other)
{
    read_side(&pair->base, base, pair->device, pair->key);
    read_side(&pair->other, other, pair->device, pair->key);
    twins_by_name(pair);
    twins_by_shape(pair);
    for (unsigned i = 0; i < pair->base.count; i++) {
        const cJSON *row = pair->base.rows[i];

        /* Not listed there is not gone, where the list was cut above it. */
        if (pair->base.twin[i] == NULL && NUMBER(row, pair->key) <= pair->other.least)
            continue;
        pair->gone += pair->base.twin[i] == NULL;
        add_row(pair, row, pair->base.twin[i]);
    }
    for (unsigned i = 0; i < pair->other.count; i++) {
        const cJSON *row = pair->other.rows[i];

        if (pair->other.twin[i] != NULL || NUMBER(row, pair->key) <= pair->base.least)
            continue;
        pair->new ++;
        add_row(pair, NULL, row);
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

cJSON *compare_sorted(cJSON *list, int (*order)(const void *, const void *))
{
    int count = cJSON_GetArraySize(list);
    cJSON **rows = malloc(((size_t)count + 1) * sizeof(rows[0])), *made;

    if (rows == NULL)
        return list;
    for (int i = 0; i < count; i++)
        rows[i] = cJSON_DetachItemFromArray(list, 0);
    qsort(rows, (size_t)count, sizeof(rows[0]), order);
    made = cJSON_CreateArray();
    for (int i = 0; i < count; i++)
        cJSON_AddItemToArray(made, rows[i]);
    free(rows);
    cJSON_Delete(list);
    return made;
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
    cJSON_AddItemToObject(object, "ops", compare_sorted(pair->list, by_weight));
    cJSON_AddNumberToObject(object, "new_ops", pair->new);
    cJSON_AddNumberToObject(object, "gone_ops", pair->gone);
    free(pair);
}
