#include "command/places.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command/command.h"

PRINTF(2, 3) static bool format(char *path, const char *text, ...)
{
    va_list arguments;
    int length;

    va_start(arguments, text);
    length = vsnprintf(path, PLACE_BYTES, text, arguments);
    va_end(arguments);
    return length > 0 && length < (int)PLACE_BYTES;
}

bool place_program(char *path)
{
    ssize_t length = readlink("/proc/self/exe", path, PLACE_BYTES - 1);

    if (length <= 0)
        return false;
    path[length] = '\0';
    return true;
}

bool place_find(enum place place, char *path)
{
    /* A build tree, an installed prefix and the Python package put things in other
     * places; seen from the program's folder. */
    static const char *const candidates[][4] = {
        [PLACE_CONFIG] = {"../etc/trainglass/trainglass.conf",
                          "../../trainglass/trainglass.conf",
                          TRAINGLASS_SOURCE_DIR "/config/trainglass.conf"},
        [PLACE_LIBRARY] = {"../lib/libtrainglass.so",
                           "../../trainglass/libtrainglass.so"},
        [PLACE_PYTHON] = {"../share/trainglass/python/trainglass/site",
                          "../../trainglass/site",
                          TRAINGLASS_SOURCE_DIR "/collector/python/trainglass/site"},
        [PLACE_STEP_TIMER] = {"../share/trainglass/python/trainglass/step_times",
                              "../../trainglass/step_times",
                              TRAINGLASS_SOURCE_DIR
                              "/collector/python/trainglass/step_times"},
        [PLACE_EXAMPLE] = {"train_mlp", "../libexec/trainglass/train_mlp"},
    };
    char program[PLACE_BYTES], joined[PLACE_BYTES], *slash, *resolved = NULL;

    if (!place_program(program) || (slash = strrchr(program, '/')) == NULL)
        return false;
    *slash = '\0';
    for (const char *const *one = candidates[place]; *one != NULL && !resolved; one++)
        if (**one == '/' ? format(joined, "%s", *one)
                         : format(joined, "%s/%s", program, *one))
            resolved = realpath(joined, NULL);
    bool fits = resolved != NULL && format(path, "%s", resolved);

    free(resolved);
    return fits;
}

bool place_state(const struct options *options, char *path)
{
    const char *set = options_text(options, OPTION_STATE_DIR);
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

    if (*set != '\0')
        return place_absolute(set, path);
    if (state != NULL && state[0] == '/')
        return format(path, "%s/trainglass", state);
    return home != NULL && home[0] == '/' &&
           format(path, "%s/.local/state/trainglass", home);
}

bool place_directory(const struct options *options, char *path)
{
    const char *set = options_text(options, OPTION_DIR);

    if (*set != '\0')
        return place_absolute(set, path);
    return format(path, "/dev/shm/trainglass-%u", (unsigned)geteuid());
}

bool place_absolute(const char *path, char *absolute)
{
    char here[PLACE_BYTES];

    if (path[0] == '/')
        return format(absolute, "%s", path);
    return getcwd(here, sizeof(here)) != NULL && format(absolute, "%s/%s", here, path);
}

int place_make(const char *path)
{
    char folder[PLACE_BYTES];

    if (!format(folder, "%s", path))
        return -ENAMETOOLONG;
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(folder, 0700) != 0 && errno != EEXIST && access(folder, X_OK) != 0)
            return -errno;
        *slash = '/';
    }
    struct stat status;

    if (mkdir(folder, 0700) == 0)
        return 0;
    if (errno != EEXIST)
        return -errno;
    return stat(folder, &status) == 0 && S_ISDIR(status.st_mode) ? 0 : -ENOTDIR;
}

bool place_warn_of_directory(const char *directory)
{
    struct stat status;
    const char *why = NULL;
    int error = place_make(directory);

    if (error != 0 || lstat(directory, &status) != 0)
        why = strerror(error != 0 ? -error : errno);
    else if (!S_ISDIR(status.st_mode))
        why = "it is a link";
    else if (status.st_uid != geteuid())
        why = "it belongs to another user";
    else if ((status.st_mode & 0022) != 0)
        why = "others can write there";
    else if (faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) != 0)
        why = strerror(errno);
    if (why != NULL)
        command_complain("nothing is recorded: the folder %.500s cannot be used (%s); "
                         "--dir names another",
                         directory, why);
    return why != NULL;
}

void place_warn_of_state(const struct options *options)
{
    bool windows = *options_text(options, OPTION_WINDOW_DIR) == '\0';
    char state[PLACE_BYTES];
    const char *why = NULL;

    if (!place_state(options, state)) {
        snprintf(state, sizeof(state), "~/.local/state/trainglass");
        why = "HOME is not set";
    } else {
        int error = place_make(state);

        if (error == 0 && faccessat(AT_FDCWD, state, W_OK | X_OK, AT_EACCESS) != 0)
            error = -errno;
        why = error == 0 ? NULL : strerror(-error);
    }
    if (why != NULL)
        command_complain(
            "the state folder %.500s cannot be written (%s): earlier runs, "
            "uploaded traces%s and the server's log are not kept; "
            "--state-dir names another",
            state, why, windows ? ", windows" : "");
}
