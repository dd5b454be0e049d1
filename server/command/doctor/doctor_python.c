/* The interpreter that would train, asked without importing torch: that takes seconds
 * and may fail for reasons that are not ours. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command/doctor/doctor.h"
#include "wire/clock.h"

#define ANSWER_BYTES 1024u
#define PATIENCE_NS  UINT64_C(20000000000)

static const char question[] =
    "import sys, importlib.util as u, importlib.metadata as m, os, re\n"
    "print(sys.executable)\n"
    "print('%d.%d.%d' % sys.version_info[:3])\n"
    "s = u.find_spec('torch')\n"
    "print(m.version('torch') if s else '')\n"
    "p = os.path.join(os.path.dirname(s.origin), 'version.py') if s else ''\n"
    "c = re.search(r\"^cuda[^=]*= *'([^']*)'\", open(p).read(), re.M) if p and "
    "os.path.exists(p) else None\n"
    "print(c.group(1) if c else '')\n";

/* Everything the child writes until it ends or patience does. */
static size_t read_answer(int fd, char *answer)
{
    uint64_t until_ns = clock_ns(CLOCK_MONOTONIC) + PATIENCE_NS;
    size_t size = 0;

    while (size < ANSWER_BYTES - 1) {
        uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        ssize_t got;

        if (now_ns >= until_ns ||
            poll(&ready, 1, (int)((until_ns - now_ns) / 1000000) + 1) <= 0)
            break;
        got = read(fd, answer + size, ANSWER_BYTES - 1 - size);
        if (got <= 0)
            break;
        size += (size_t)got;
    }
    answer[size] = '\0';
    return size;
}

static size_t ask(const char *interpreter, char *answer)
{
    int ends[2];
    pid_t child;
    size_t size;

    answer[0] = '\0';
    if (pipe(ends) != 0)
        return 0;
    child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(126);
        execlp(interpreter, interpreter, "-c", question, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    size = child > 0 ? read_answer(ends[0], answer) : 0;
    close(ends[0]);
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    return size;
}

static const char *take_line(const char *text, char *line, size_t size)
{
    size_t length = strcspn(text, "\n");

    snprintf(line, size, "%.*s", (int)length, text);
    return text[length] == '\n' ? text + length + 1 : text + length;
}

void doctor_ask_python(struct doctor *doctor)
{
    static const char *const names[] = {"python3", "python", NULL};
    char answer[ANSWER_BYTES];
    const char *text = answer;
    struct utsname machine;
    size_t size = 0;

    if (uname(&machine) == 0)
        snprintf(doctor->machine, sizeof(doctor->machine), "%.31s", machine.machine);
    if (doctor->python != NULL)
        size = ask(doctor->python, answer);
    for (int i = 0; doctor->python == NULL && size == 0 && names[i] != NULL; i++)
        size = ask(names[i], answer);
    if (size == 0)
        return;
    text = take_line(text, doctor->interpreter, sizeof(doctor->interpreter));
    text = take_line(text, doctor->python_version, sizeof(doctor->python_version));
    text = take_line(text, doctor->torch_version, sizeof(doctor->torch_version));
    take_line(text, doctor->torch_cuda, sizeof(doctor->torch_cuda));
}
