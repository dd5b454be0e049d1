/* What the median recorded step of the window waited for, from its beginning to its end, and what
 * steps would take if something in them were gone. */
#include <math.h>

#include "document/document.h"
#include "document/json.h"
#include "query/kernel_name.h"
#include "query/replay_query.h"
#include "query/what_if.h"
#include "wire/words.h"

static void add_step(cJSON *body, const struct replay_answer *answer)
{
    cJSON *step;

    if (answer->table.steps == 0) {
        cJSON_AddNullToObject(body, "step");
        return;
    }
    step = cJSON_AddObjectToObject(body, "step");
    json_integer(step, "number", answer->number);
    json_stamp(step, "start_ms", answer->start_ns);
    json_ms(step, "duration_ms", answer->duration_ns);
    json_ms(step, "unknown_ms", answer->unknown_ns);
}

static void add_kinds(cJSON *body, const struct replay_answer *answer)
{
    cJSON *part = cJSON_AddObjectToObject(body, "kinds");

    for (uint32_t i = 0; i < REPLAY_KINDS && answer->table.steps > 0; i++)
        json_ms(part, replay_kind_name((enum replay_kind)i), answer->kind_ns[i]);
}

static void add_path(cJSON *body, const struct replay_answer *answer)
{
    static const char *const columns[] = {
        "start_ms", "duration_ms", "kind", "name", "where", "pieces", "short_name"};
    cJSON *part = cJSON_AddObjectToObject(body, "path"), *list;
    char text[KERNEL_SHORT_BYTES];

    json_columns(part, columns, 7);
    list = cJSON_AddArrayToObject(part, "points");
    for (uint32_t i = 0; i < answer->part_count; i++) {
        const struct replay_part *of = &answer->parts[i];
        bool shorter =
            (of->kind == REPLAY_COMPUTE || of->kind == REPLAY_COMMUNICATION) &&
            kernel_short_name(of->name, text, sizeof(text));
        cJSON *point =
            JSON_NUMBERS(json_rounded_ms((double)of->start_ns),
                         json_rounded_ms((double)(of->end_ns - of->start_ns)));

        cJSON_AddItemToArray(point, cJSON_CreateString(replay_kind_name(of->kind)));
        cJSON_AddItemToArray(point, json_value_text(of->name, JSON_NAME_BYTES));
        cJSON_AddItemToArray(point, json_value_text(of->where, JSON_NAME_BYTES));
        cJSON_AddItemToArray(point, json_value(of->pieces));
        cJSON_AddItemToArray(
            point, json_value_text(shorter ? text : NULL, KERNEL_SHORT_BYTES));
        cJSON_AddItemToArray(list, point);
    }
}

static void add_shares(cJSON *body, const struct replay_answer *answer)
{
    cJSON *list = cJSON_AddArrayToObject(body, "shares");

    for (uint32_t i = 0; i < answer->share_count; i++) {
        const struct replay_share *share = &answer->shares[i];
        cJSON *row = json_row(list);

        json_text(row, "kind", replay_kind_name(share->kind));
        json_text(row, "name", share->name);
        json_ms(row, "ms", share->ns);
        json_count(row, "count", share->count);
        json_share(row, "share", share->ns / answer->duration_ns);
    }
    json_ms(body, "other_ms",
            answer->table.steps > 0 ? answer->other_ns : answer->duration_ns);
}

static void add_what_ifs(cJSON *body, const struct replay_answer *answer)
{
    cJSON *list = cJSON_AddArrayToObject(body, "what_if");

    for (uint32_t i = 0; i < REPLAY_WHAT_IFS; i++) {
        const struct replay_what_if_row *row = &answer->table.what_ifs[i];
        enum replay_what_if what_if = (enum replay_what_if)i;
        if (!row->known)
            continue;
        cJSON *one = json_row(list);

        json_text(one, "id", replay_what_if_name(what_if));
        json_text(one, "title", what_if_title(what_if));
        json_ms(one, "step_ms", row->mean_ns);
        json_ms(one, "step_ms_low", row->low_ns);
        json_ms(one, "step_ms_high", row->high_ns);
    }
}

static void add_launched(cJSON *body, const struct replay_table *table)
{
    cJSON *part = cJSON_AddObjectToObject(body, "launched_ms");

    for (uint32_t i = 0; i <= EVENT_PHASES; i++)
        json_ms(part, wire_phase_word(i),
                table->steps > 0 ? table->launched_ns[i] : (double)NAN);
}

void add_critical_path_json(cJSON *body, const struct replay_answer *answer)
{
    json_count(body, "replayed_steps", answer->table.steps);
    json_ms(body, "replayed_step_ms",
            answer->table.steps > 0 ? answer->table.step_ns : answer->duration_ns);
    add_step(body, answer);
    add_kinds(body, answer);
    add_path(body, answer);
    add_shares(body, answer);
    add_what_ifs(body, answer);
    add_launched(body, &answer->table);
}
