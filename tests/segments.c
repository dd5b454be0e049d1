#include "segments.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

char segments_directory[] = "/dev/shm/trainglass-test-XXXXXX";

int segments_run(int (*scenario)(void))
{
    int status;
    pid_t child = fork();

    if (child == 0)
        exit(scenario());
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int has_suffix(const struct dirent *entry, const char *suffix)
{
    size_t length = strlen(entry->d_name), tail = strlen(suffix);

    return length >= tail && strcmp(entry->d_name + length - tail, suffix) == 0;
}

static int is_segment(const struct dirent *entry)
{
    return has_suffix(entry, ".seg");
}

int segments_open_path(const char *path, struct segment_file *file)
{
    struct stat status;
    const char *reason;

    *file = (struct segment_file){.fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (file->fd < 0 || fstat(file->fd, &status) != 0)
        return -errno;
    (void)snprintf(file->path, sizeof(file->path), "%s", path);
    file->bytes = (uint64_t)status.st_size;
    file->base = mmap(NULL, file->bytes, PROT_READ, MAP_SHARED, file->fd, 0);
    if (file->base == MAP_FAILED) {
        close(file->fd);
        return -ENOMEM;
    }
    int error = wire_view_open(&file->view, file->base, file->bytes, &reason);

    if (error != 0)
        segments_close(file);
    return error;
}

int segments_open_at(const char *directory, int index, struct segment_file *file)
{
    struct dirent **entries;
    int count = scandir(directory, &entries, is_segment, alphasort), result = -ENOENT;
    char path[320];

    for (int i = 0; i < count; i++) {
        if (i == index) {
            (void)snprintf(path, sizeof(path), "%.200s/%.100s", directory,
                           entries[i]->d_name);
            result = segments_open_path(path, file);
        }
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return result;
}

int segments_open_only(const char *directory, struct segment_file *file)
{
    return segments_count(directory, ".seg") == 1 ? segments_open_at(directory, 0, file)
                                                  : -ENOENT;
}

void segments_close(struct segment_file *file)
{
    union {
        const void *read_only;
        void *any;
    } base = {file->base};

    munmap(base.any, file->bytes);
    close(file->fd);
}

int segments_count(const char *directory, const char *suffix)
{
    DIR *stream = opendir(directory);
    struct dirent *entry;
    int count = 0;

    while (stream != NULL && (entry = readdir(stream)) != NULL)
        count += has_suffix(entry, suffix);
    if (stream != NULL)
        closedir(stream);
    return count;
}

int segments_alive(const struct segment_file *file)
{
    int fd = open(file->path, O_RDONLY | O_CLOEXEC);
    int alive = flock(fd, LOCK_SH | LOCK_NB) != 0;

    close(fd);
    return alive;
}

int64_t segments_events(const struct segment_file *file, uint32_t slot,
                        struct event *events, uint64_t max)
{
    struct ring_reader reader;

    if (wire_view_ring(&file->view, slot, &reader, 1) != 1)
        return -ENOENT;
    return ring_read(&reader, events, max);
}

const char *segments_name(const struct segment_file *file, uint64_t meta, char *text)
{
    const char *bytes;
    uint32_t length = names_lookup(&file->view.names, EVENT_NAME(meta), &bytes);

    (void)snprintf(text, 64, "%.*s", (int)(length < 63 ? length : 63), bytes);
    return text;
}

int segments_remove_all(const char *directory)
{
    DIR *stream = opendir(directory);
    struct dirent *entry;

    if (stream == NULL)
        return -errno;
    while ((entry = readdir(stream)) != NULL)
        if (entry->d_name[0] != '.')
            (void)unlinkat(dirfd(stream), entry->d_name, 0);
    closedir(stream);
    return 0;
}

int segments_set_up(void **state)
{
    (void)state;
    return mkdtemp(segments_directory) == NULL ||
           setenv("TRAINGLASS_DIR", segments_directory, 1) != 0;
}

int segments_clear(void **state)
{
    (void)state;
    return segments_remove_all(segments_directory);
}

int segments_tear_down(void **state)
{
    return segments_clear(state) != 0 || rmdir(segments_directory) != 0;
}
