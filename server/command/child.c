#include "command/child.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command/command.h"
#include "command/places.h"
#include "wire/clock.h"

/* A launcher gives its ranks 30 s to end; what ends later did not end for that. */
#define ASKED_NS UINT64_C(60000000000)

static const int forwarded[] = {
    SIGTERM, SIGHUP,  SIGINT,  SIGQUIT, SIGUSR1,   SIGUSR2,
    SIGTSTP, SIGCONT, SIGALRM, SIGXCPU, SIGVTALRM, SIGPROF,
};
/* What a write of ours may raise: a line that nobody reads, a note that a limit forbids.
 * The command runs all the same. */
static const int survived[] = {SIGPIPE, SIGXFSZ};
#define SURVIVED (sizeof(survived) / sizeof(survived[0]))
static sigset_t old_mask;
static struct sigaction old_child_action, old_survived[SURVIVED];

void child_end_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
}

static int not_runnable(const char *program, int error)
{
    command_complain("%s: %s", program,
                     error == ENOENT ? "command not found" : strerror(error));
    return error == ENOENT ? 127 : 126;
}

static int check_file(const char *path)
{
    struct stat status;

    if (stat(path, &status) != 0)
        return errno == ENOTDIR ? ENOENT : errno;
    if (S_ISDIR(status.st_mode))
        return EISDIR;
    return access(path, X_OK) == 0 ? 0 : errno;
}

int child_check(const char *program)
{
    const char *path = getenv("PATH");
    char candidate[PLACE_BYTES];
    int error = ENOENT;

    if (strchr(program, '/') != NULL) {
        error = check_file(program);
        return error == 0 ? 0 : not_runnable(program, error);
    }
    for (path = path != NULL ? path : "/bin:/usr/bin"; path != NULL && *program != '\0';
         path = strchr(path, ':') != NULL ? strchr(path, ':') + 1 : NULL) {
        int length = (int)strcspn(path, ":");
        int size = snprintf(candidate, sizeof(candidate), "%.*s%s%s", length, path,
                            length ? "/" : "", program);
        int found = size < (int)sizeof(candidate) ? check_file(candidate) : ENOENT;

        if (found == 0)
            return 0;
        /* As execvp: something unusable is worth telling when nothing better comes. */
        if (found != ENOENT && found != EISDIR)
            error = found;
    }
    return not_runnable(program, error);
}

void child_block_signals(void)
{
    sigset_t mask;

    sigemptyset(&mask);
    for (size_t i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++)
        sigaddset(&mask, forwarded[i]);
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_BLOCK, &mask, &old_mask);
    /* Whoever started us may ignore it; children would then vanish unreported. */
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, &old_child_action);
    for (size_t i = 0; i < SURVIVED; i++)
        sigaction(survived[i], &(struct sigaction){.sa_handler = SIG_IGN},
                  &old_survived[i]);
}

void child_restore_signals(void)
{
    sigaction(SIGCHLD, &old_child_action, NULL);
    for (size_t i = 0; i < SURVIVED; i++)
        sigaction(survived[i], &old_survived[i], NULL);
    sigprocmask(SIG_SETMASK, &old_mask, NULL);
}

void child_hear_signals(void (*handler)(int number))
{
    static const int heard[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action;
    sigset_t open;

    sigemptyset(&open); /* the others would end us by default */
    for (size_t i = 0; i < sizeof(heard) / sizeof(heard[0]); i++) {
        if (sigaction(heard[i], NULL, &action) != 0 || action.sa_handler == SIG_IGN)
            continue;
        action =
            (struct sigaction){.sa_handler = handler, .sa_flags = (int)SA_RESETHAND};
        sigaction(heard[i], &action, NULL);
        sigaddset(&open, heard[i]);
    }
    sigprocmask(SIG_UNBLOCK, &open, NULL);
}

pid_t child_start(char *const *argv)
{
    pid_t child = fork();

    if (child < 0)
        command_complain("%s: %s", argv[0], strerror(errno));
    if (child != 0)
        return child;
    child_restore_signals();
    execvp(argv[0], argv);
    _exit(not_runnable(argv[0], errno));
}

/* Reaps whatever ended or stopped; true when it was the command that ended. */
static bool reap(pid_t child, struct child_end *end)
{
    bool ended = false;
    pid_t pid;
    int status;

    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
        if (pid != child)
            continue; /* an orphan that fell to us as PID 1 */
        if (WIFSTOPPED(status)) {
            /* The shell that waits for us sees the stop as it would see the command's.
             */
            raise(SIGSTOP);
            continue;
        }
        ended = true;
        *end = WIFSIGNALED(status)
                   ? (struct child_end){128 + WTERMSIG(status), WTERMSIG(status), 0}
                   : (struct child_end){WEXITSTATUS(status), 0, 0};
    }
    return ended;
}

/* The parent of a process, 0 unknown. */
static pid_t parent_of(pid_t pid)
{
    char path[32], line[512] = "";
    int parent = 0;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return 0;
    /* The name in brackets may hold anything. */
    const char *rest = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;

    fclose(file);
    return rest != NULL && sscanf(rest, ") %*c %d", &parent) == 1 ? parent : 0;
}

#define GENERATIONS 64 /* of a job; deeper ones are taken for strangers */

static bool is_of_job(pid_t pid, pid_t child)
{
    for (int i = 0; i < GENERATIONS && pid > 1 && pid != child; i++)
        pid = parent_of(pid);
    return pid == child;
}

/* What the terminal sends goes to the whole group; that it hung up, to the leader of the
 * session alone, which is us where a pane of tmux or `ssh -t` runs nothing else. What the
 * job itself sends comes to us as one of its group, and it has it; or it was meant for
 * whoever started it, and that is not the job. */
static bool has_it_already(const siginfo_t *info, pid_t child)
{
    int number = info->si_signo;
    bool told_alone = (number == SIGHUP || number == SIGCONT) && getsid(0) == getpid();

    if (info->si_code == SI_USER)
        return is_of_job(info->si_pid, child);
    return info->si_code == SI_KERNEL && !told_alone;
}

struct child_end child_wait(pid_t child)
{
    struct child_end end = {126, 0, 0};
    uint64_t asked_ns = 0;
    int asked = 0; /* what somebody asked of the command */
    sigset_t mask, ends;

    if (child < 0)
        return end;
    child_end_signals(&ends);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    for (;;) {
        siginfo_t info;
        int number = sigwaitinfo(&mask, &info);

        if (number == SIGCHLD) {
            if (!reap(child, &end))
                continue;
            if (clock_ns(CLOCK_MONOTONIC) - asked_ns < ASKED_NS)
                end.asked = asked;
            return end;
        }
        if (number > 0 && sigismember(&ends, number)) {
            asked = number;
            asked_ns = clock_ns(CLOCK_MONOTONIC);
        }
        if (number > 0 && !has_it_already(&info, child))
            kill(child, number);
    }
}
