/* Ranks by the names of files, for traces that do not say theirs. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "ingest/file/file.h"

#define RANK_DIGITS 5 /* what is longer is a process id or a time */

/* The number behind a word that begins at `at`; -1 where none stands there. */
static int32_t number_behind(const char *at)
{
    at += strspn(at, "-_=. ");
    size_t digits = strspn(at, "0123456789");

    return digits > 0 && digits <= RANK_DIGITS ? (int32_t)strtol(at, NULL, 10) : -1;
}

static int32_t rank_in(const char *text)
{
    static const char *const words[] = {"rank", "worker", "tp"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        int32_t found = -1;

        for (const char *at = text; (at = strcasestr(at, words[i])) != NULL; at++) {
            int32_t number = number_behind(at + strlen(words[i]));

            /* Not within another word: "frank1" has no rank, "traceRank1" has. */
            if (number >= 0 &&
                (at == text || !isalpha((unsigned char)at[-1]) ||
                 (isupper((unsigned char)at[0]) && islower((unsigned char)at[-1]))))
                found = number;
        }
        if (found >= 0)
            return found;
    }
    return -1;
}

/* The last part of a path, or the one before it. */
static int32_t rank_in_part(const char *begin, size_t length)
{
    char part[256];

    if (length >= sizeof(part))
        return -1;
    memcpy(part, begin, length);
    part[length] = '\0';
    return rank_in(part);
}

int32_t file_rank_of_name(const char *path)
{
    const char *base = strrchr(path, '/'), *folder = base;

    if (base == NULL)
        return rank_in_part(path, strlen(path));
    int32_t rank = rank_in_part(base + 1, strlen(base + 1));

    if (rank >= 0)
        return rank;
    while (folder > path && folder[-1] != '/')
        folder--;
    return rank_in_part(folder, (size_t)(base - folder));
}

/* The process id in a name of dynolog's; -1 where it is none. */
static int64_t dynolog_pid(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash == NULL ? path : slash + 1, *at = base;
    char *end;

    if (strncmp(base, "libkineto", 9) != 0)
        return -1;
    at += strcspn(at, "0123456789");
    int64_t pid = strtoll(at, &end, 10);

    return end == at ? -1 : pid;
}

void file_ranks_of_names(const char *const *paths, uint32_t count, int32_t *ranks)
{
    bool any = false, twice = false;

    for (uint32_t i = 0; i < count; i++) {
        ranks[i] = file_rank_of_name(paths[i]);
        any = any || ranks[i] >= 0;
    }
    for (uint32_t i = 0; i < count && !any; i++)
        for (uint32_t j = 0; j < i && !twice; j++) /* one process several times */
            twice = dynolog_pid(paths[i]) == dynolog_pid(paths[j]);
    if (any || twice || count < 2 || dynolog_pid(paths[0]) < 0 ||
        dynolog_pid(paths[1]) < 0)
        return;
    for (uint32_t i = 0; i < count; i++) {
        int64_t pid = dynolog_pid(paths[i]);

        ranks[i] = pid < 0 ? -1 : 0;
        for (uint32_t j = 0; pid >= 0 && j < count; j++)
            ranks[i] += dynolog_pid(paths[j]) >= 0 && dynolog_pid(paths[j]) < pid;
    }
}
