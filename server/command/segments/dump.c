/* trainglass dump: a session as it stands in shared memory, for whoever wants to know
 * what was really recorded. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command/command.h"
#include "command/places.h"
#include "command/segments/dump_segment.h"
#include "command/segments/segment_file.h"
#include "wire/words.h"

static const char *state_name(const struct segment_entry *entry)
{
    return entry->session[0] == '\0' ? "unreadable"
           : entry->alive            ? "running"
           : entry->ended            ? "ended"
                                     : "crashed";
}

static int list_sessions(const struct segment_entry *entries, int count, bool json)
{
    cJSON *rows = json ? cJSON_CreateArray() : NULL;

    if (!json)
        printf("%-20s %-20s %8s %5s %-9s %10s %8s %s\n", "SESSION", "NAME", "PID",
               "RANK", "ROLE", "STEPS", "MIB", "STATE");
    for (int i = 0; i < count; i++) {
        const struct segment_entry *entry = &entries[i];
        cJSON *row;

        if (!json) {
            char rank[16] = "-";

            if (entry->rank >= 0)
                (void)snprintf(rank, sizeof(rank), "%d", entry->rank);
            printf("%-20s %-20s %8u %5s %-9s %10llu %8.1f %s\n",
                   entry->session[0] ? entry->session : entry->file, entry->run_name,
                   entry->pid, rank, wire_role_word(entry->role),
                   (unsigned long long)entry->steps, (double)entry->bytes / (1 << 20),
                   state_name(entry));
            continue;
        }
        row = cJSON_CreateObject();
        cJSON_AddItemToArray(rows, row);
        cJSON_AddStringToObject(row, "session", entry->session);
        cJSON_AddStringToObject(row, "name", entry->run_name);
        cJSON_AddStringToObject(row, "file", entry->file);
        cJSON_AddNumberToObject(row, "pid", entry->pid);
        if (entry->rank >= 0)
            cJSON_AddNumberToObject(row, "rank", entry->rank);
        else
            cJSON_AddNullToObject(row, "rank");
        cJSON_AddStringToObject(row, "role", wire_role_word(entry->role));
        cJSON_AddNumberToObject(row, "steps", (double)entry->steps);
        cJSON_AddNumberToObject(row, "bytes", (double)entry->bytes);
        cJSON_AddBoolToObject(row, "alive", entry->alive);
        cJSON_AddStringToObject(row, "state", state_name(entry));
    }
    return json ? command_print_json(rows) : EXIT_DONE;
}

/* The document as indented `key: value` lines: what JSON says, easier to read. */
static void print_outline(const cJSON *item, int depth)
{
    for (; item != NULL; item = item->next) {
        char *value = NULL;

        printf("%*s%s%s", 2 * depth, "", item->string ? item->string : "-",
               item->string ? ":" : "");
        if (cJSON_IsObject(item) || (cJSON_IsArray(item) && item->child != NULL &&
                                     !cJSON_IsNumber(item->child))) {
            putchar('\n');
            print_outline(item->child, depth + 1);
            continue;
        }
        value = cJSON_PrintUnformatted(item);
        printf(" %s\n", value ? value : "");
        cJSON_free(value);
    }
}

static int dump_session(const struct segment_entry *entries, int count,
                        const char *directory, const struct invocation *invocation)
{
    const char *session = invocation->argv[0], *events = invocation->flags[0];
    cJSON *document = cJSON_CreateObject(), *processes;
    int found = 0, unreadable = 0;

    cJSON_AddStringToObject(document, "session", session);
    cJSON_AddStringToObject(document, "directory", directory);
    processes = cJSON_AddArrayToObject(document, "processes");
    for (int i = 0; i < count; i++) {
        if (strcmp(entries[i].session, session) != 0 &&
            strcmp(entries[i].file, session) != 0)
            continue;
        found++;
        unreadable += !dump_segment(processes, directory, &entries[i],
                                    events ? strtoull(events, NULL, 10) : 0);
    }
    if (found == 0) {
        cJSON_Delete(document);
        command_complain("%s: no such session in %s", session, directory);
        return EXIT_UNREADABLE;
    }
    int code = EXIT_DONE;

    if (invocation->json)
        code = command_print_json(document);
    else {
        print_outline(document->child, 0);
        cJSON_Delete(document);
    }
    return unreadable == found ? EXIT_UNREADABLE : code;
}

int command_dump(const struct invocation *invocation)
{
    const char *events = invocation->flags[0];
    struct segment_entry *entries;
    char directory[PLACE_BYTES];
    int count, code;

    if (events != NULL &&
        (strlen(events) > 7 || events[strspn(events, "0123456789")] != '\0')) {
        command_complain("--events: '%.40s' is not a whole number from 0 to 9999999",
                         events);
        return EXIT_USAGE;
    }
    if (!place_directory(&invocation->options, directory))
        return EXIT_USAGE;
    count = segment_list(directory, &entries);
    if (count < 0) {
        command_complain("%s: %s", directory,
                         count == -ENOENT
                             ? "no such folder: nothing was recorded here yet"
                             : strerror(-count));
        return EXIT_UNREADABLE;
    }
    code = invocation->argc == 0 ? list_sessions(entries, count, invocation->json)
                                 : dump_session(entries, count, directory, invocation);
    free(entries);
    return code;
}
