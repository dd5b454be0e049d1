/* trainglass doctor: every source and every need, can it work here, why not, what to
 * do. A check is a row of the table below; it looks and changes nothing. */
#include "command/doctor/doctor.h"

#include <cjson/cJSON.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ingest/nvml/library.h"

static const char *const state_words[] = {"ok", "limited", "missing"};

void doctor_say(struct diagnosis *diagnosis, enum doctor_state state,
                const char *remedy, const char *format, ...)
{
    va_list arguments;

    diagnosis->state = state;
    snprintf(diagnosis->remedy, sizeof(diagnosis->remedy), "%s", remedy);
    va_start(arguments, format);
    vsnprintf(diagnosis->reason, sizeof(diagnosis->reason), format, arguments);
    va_end(arguments);
}

static cJSON *diagnosis_json(const struct doctor_check *check,
                             const struct diagnosis *diagnosis)
{
    cJSON *row = cJSON_CreateObject();

    cJSON_AddStringToObject(row, "source", check->source);
    cJSON_AddStringToObject(row, "state", state_words[diagnosis->state]);
    cJSON_AddBoolToObject(row, "needed", check->needed);
    cJSON_AddStringToObject(row, "reason", diagnosis->reason);
    cJSON_AddStringToObject(row, "remedy", diagnosis->remedy);
    return row;
}

static void print_diagnosis(const struct doctor_check *check,
                            const struct diagnosis *diagnosis)
{
    static const char *const marks[] = {"ok     ", "limited", "missing"};

    printf("%s  %-14s %s\n", marks[diagnosis->state], check->source, diagnosis->reason);
    if (diagnosis->remedy[0] != '\0')
        printf("%25s-> %s\n", "", diagnosis->remedy);
}

int command_doctor(const struct invocation *invocation)
{
    struct doctor doctor = {.options = &invocation->options,
                            .python = invocation->flags[0]};
    cJSON *document = invocation->json ? cJSON_CreateObject() : NULL;
    cJSON *rows = document ? cJSON_AddArrayToObject(document, "sources") : NULL;
    bool can_record = true;

    if (!place_directory(doctor.options, doctor.directory))
        doctor.directory[0] = '\0';
    doctor_ask_python(&doctor);
    doctor.gpu_driver = nvml_driver_is_here();
    for (const struct doctor_check *check = doctor_checks; check->source; check++) {
        struct diagnosis diagnosis = {.state = DOCTOR_OK};

        check->look(&doctor, &diagnosis);
        if (diagnosis.reason[0] == '\0')
            continue;
        if (check->needed && diagnosis.state == DOCTOR_MISSING)
            can_record = false;
        if (rows != NULL)
            cJSON_AddItemToArray(rows, diagnosis_json(check, &diagnosis));
        else
            print_diagnosis(check, &diagnosis);
    }
    if (document != NULL) {
        cJSON_AddBoolToObject(document, "can_record", can_record);
        command_print_json(document);
    } else {
        printf("\n%s\n", can_record ? "A job can be recorded and shown here."
                                    : "A job cannot be recorded or shown here.");
    }
    return can_record ? EXIT_DONE : EXIT_CANNOT_START;
}
