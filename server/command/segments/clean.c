/* trainglass clean: removes what ended jobs left in shared memory. */
#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command/command.h"
#include "command/places.h"
#include "command/segments/segment_file.h"
#include "wire/text.h"

struct cleaning {
    const char *directory;
    const struct segment_entry *entries;
    int count;
    bool dry_run;
    uint64_t bytes; /* freed */
    int files;
    int failed;
    int error; /* of the first that failed */
};

/* A session stays whole while any of its processes lives. */
static bool is_alive(const struct cleaning *cleaning, const char *session)
{
    for (int i = 0; i < cleaning->count; i++)
        if (cleaning->entries[i].alive &&
            strcmp(cleaning->entries[i].session, session) == 0)
            return true;
    return false;
}

/* The entry of `name`'s segment: <random>.ctl belongs to <random>.seg. */
static const struct segment_entry *segment_of(const struct cleaning *cleaning,
                                              const char *name)
{
    size_t stem = strcspn(name, ".");

    for (int i = 0; i < cleaning->count; i++)
        if (strncmp(cleaning->entries[i].file, name, stem) == 0 &&
            cleaning->entries[i].file[stem] == '.')
            return &cleaning->entries[i];
    return NULL;
}

static bool ends_so(const char *name, const char *const *suffixes)
{
    while (*suffixes != NULL && !segment_file_is(name, *suffixes))
        suffixes++;
    return *suffixes != NULL;
}

static bool is_left_behind(const struct cleaning *cleaning, int folder,
                           const char *name)
{
    static const char *const of_runs[] = {".run", ".run.new", NULL};
    static const char *const of_sessions[] = {".end", ".end.new", NULL};
    static const char *const of_segments[] = {".seg",  ".ctl", ".stacks",
                                              ".done", ".win", NULL};
    const struct segment_entry *segment = segment_of(cleaning, name);
    char text[NAME_MAX + 8];

    if (ends_so(name, of_runs) ||
        (segment_file_is(name, ".lock") && text_starts(name, "port-")))
        return segment_note_is_abandoned(folder, name); /* nobody holds it */
    if (ends_so(name, of_sessions)) {
        size_t tail = strlen(text_ends(name, ".new") ? ".end.new" : ".end");

        snprintf(text, sizeof(text), "%.*s", (int)(strlen(name) - tail), name);
        return !is_alive(cleaning, text);
    }
    if (!ends_so(name, of_segments))
        return false;
    if (segment != NULL)
        return !segment->alive &&
               (segment->session[0] == '\0' || !is_alive(cleaning, segment->session));
    /* A segment that was not there when they were listed is of a job that has just begun. */
    snprintf(text, sizeof(text), "%.*s.seg", (int)strcspn(name, "."), name);
    return faccessat(folder, text, F_OK, 0) != 0;
}

static void remove_file(struct cleaning *cleaning, int folder, const char *name)
{
    struct stat status;

    if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        S_ISDIR(status.st_mode))
        return;
    if (!cleaning->dry_run && unlinkat(folder, name, 0) != 0) {
        cleaning->error = cleaning->failed++ == 0 ? errno : cleaning->error;
        return;
    }
    cleaning->files++;
    cleaning->bytes += (uint64_t)status.st_blocks * 512;
}

static int report(const struct cleaning *cleaning, bool json)
{
    if (json) {
        cJSON *document = cJSON_CreateObject();

        cJSON_AddStringToObject(document, "directory", cleaning->directory);
        cJSON_AddBoolToObject(document, "dry_run", cleaning->dry_run);
        cJSON_AddNumberToObject(document, "files", cleaning->files);
        cJSON_AddNumberToObject(document, "bytes", (double)cleaning->bytes);
        cJSON_AddNumberToObject(document, "failed", cleaning->failed);
        command_print_json(document);
    } else {
        printf("%s %d files, %.1f MiB, in %s\n",
               cleaning->dry_run ? "Would remove" : "Removed", cleaning->files,
               (double)cleaning->bytes / (1 << 20), cleaning->directory);
    }
    if (cleaning->failed == 0)
        return EXIT_DONE;
    command_complain("%d files could not be removed: %s", cleaning->failed,
                     strerror(cleaning->error));
    return EXIT_CANNOT_START;
}

int command_clean(const struct invocation *invocation)
{
    struct segment_entry *entries = NULL;
    struct dirent *found;
    char directory[PLACE_BYTES];
    struct cleaning cleaning = {.dry_run = invocation->flags[0] != NULL};
    DIR *folder;

    if (!place_directory(&invocation->options, directory))
        return EXIT_USAGE;
    cleaning.directory = directory;
    cleaning.count = segment_list(directory, &entries);
    cleaning.entries = entries;
    folder = cleaning.count >= 0 ? opendir(directory) : NULL;
    if (folder == NULL && errno != ENOENT) {
        command_complain("%s: %s", directory, strerror(errno));
        free(entries);
        return EXIT_UNREADABLE;
    }
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of our own */
    while (folder != NULL && (found = readdir(folder)) != NULL)
        if (is_left_behind(&cleaning, dirfd(folder), found->d_name))
            remove_file(&cleaning, dirfd(folder), found->d_name);
    if (folder != NULL)
        closedir(folder);
    free(entries);
    return report(&cleaning, invocation->json);
}
