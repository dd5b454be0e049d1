/* trainglass demo: examples/train_mlp.c under `run`. */
#include <stdlib.h>
#include <unistd.h>

#include "command/gate.h"
#include "command/live/run.h"
#include "command/places.h"

int command_demo(const struct invocation *invocation)
{
    static char program[PLACE_BYTES];
    char **argv;
    int code;

    if (invocation->argc > 0 && invocation->argv[0][0] != '-') {
        /* train_mlp takes flags alone: somebody forgot what says that it is a command. */
        command_complain("demo: '%.60s' is no flag; your own command stands behind --: "
                         "`trainglass run -- %.60s ...`, `./run.sh -- %.60s ...`",
                         invocation->argv[0], invocation->argv[0], invocation->argv[0]);
        return EXIT_USAGE;
    }
    if (!place_example(program)) {
        command_complain("the demo's program train_mlp is not beside this one");
        return EXIT_CANNOT_START;
    }
    argv = calloc((size_t)invocation->argc + 2, sizeof(*argv));
    if (argv == NULL)
        return EXIT_CANNOT_START;
    argv[0] = program;
    for (int i = 0; i < invocation->argc; i++)
        argv[i + 1] = invocation->argv[i];
    const struct gate none = {.count = 0};
    const struct run_request request = {.options = &invocation->options,
                                        .name = "demo",
                                        .server = invocation->flags[0] == NULL,
                                        .gate = &none,
                                        .argv = argv};

    code = run_command(&request);
    free(argv);
    return code;
}
