/* trainglass run: a server beside the command, the command as a child; and trainglass demo:
 * examples/train_mlp.c under `run`. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/child.h"
#include "command/command.h"
#include "command/gate.h"
#include "command/live/contract.h"
#include "command/live/launch.h"
#include "command/places.h"
#include "command/segments/segment_file.h"
#include "wire/run_note.h"

/* Under SSH the page is on the far machine: the line that brings it here. */
static void print_ssh_line(uint16_t port)
{
    const char *connection = getenv("SSH_CONNECTION"), *user = getenv("USER");
    char host[64], flag[24] = "";
    unsigned ssh_port;

    if (connection == NULL ||
        sscanf(connection, "%*s %*s %63s %u", host, &ssh_port) != 2)
        return;
    if (ssh_port != 22)
        snprintf(flag, sizeof(flag), "-p %u ", ssh_port);
    command_complain("from your machine: ssh %s-L %u:localhost:%u %s@%s", flag, port,
                     port, user ? user : "USER", host);
}

static void print_address(const struct launched *launched,
                          const struct options *options)
{
    const char *note = launched->reason[0] ? "  (" : "";

    if (launched->port == 0) {
        command_complain("no page: %s; the job is recorded all the same",
                         launched->reason);
        return;
    }
    command_complain("http://localhost:%u%s%s%s%s%s%s", launched->port,
                     options_text(options, OPTION_BASE_PATH),
                     launched->token[0] ? "/?token=" : "", launched->token, note,
                     launched->reason, *note ? ")" : "");
    print_ssh_line(launched->port);
}

/* Short runs say nothing of their cost that is worth a line. */
#define COST_STEPS_MIN 100u

static void print_cost(const struct contract *contract)
{
    struct own_figure cost;

    if (!own_figure_read(contract->directory, contract->session, &cost) ||
        cost.steps < COST_STEPS_MIN || isnan(cost.low_pct))
        return;
    command_complain(
        "watching took %.2f %% of the training's time (95 %%: %.2f to %.2f "
        "%%); the budget is %g %%",
        cost.measured_pct, fmax(cost.low_pct, 0), cost.high_pct, cost.budget_pct);
}

/* Runs argv as `name` (NULL: the script's), with a server unless `record_only`; returns its
 * exit code, or what the gate makes of it. */
static int run_job(const struct options *options, const char *name, bool record_only,
                   const struct gate *gate, char **argv)
{
    struct contract contract;
    struct launched launched = {.runs_lock = -1};
    int code = child_check(argv[0]);

    if (code != 0)
        return code;
    child_block_signals();
    contract_open(&contract, options, name, argv);
    if (!record_only) {
        launch_server(&launched, options, contract.directory);
        print_address(&launched, options);
        contract.port = launched.port;
        /* else it is another server's, with a folder of its own */
        if (!launched.joined)
            place_warn_of_state(options);
    }
    bool unusable = place_warn_of_directory(contract.directory);

    unsetenv("TRAINGLASS_TOKEN"); /* the page's, not the job's */
    contract_export(&contract, options, argv);
    pid_t child = child_start(argv);

    if (child > 0)
        contract_announce(&contract, argv, child);
    struct child_end end = child_wait(child);

    if (!contract_close(&contract, child, &end) && child > 0 && !unusable)
        command_complain("nothing was recorded of %s: " RUN_NOTE_UNSEEN
                         "; " RUN_NOTE_REMEDY,
                         contract.run_name);
    print_cost(&contract);
    /* The lock goes with us; the server lingers from here. */
    const struct gate_run run = {
        .port = launched.port,
        .token =
            launched.token[0] ? launched.token : options_text(options, OPTION_TOKEN),
        .session = contract.session,
        .code = end.code,
    };

    return gate_close(gate, &run);
}

int command_run(const struct invocation *invocation)
{
    enum { FLAG_NAME, FLAG_NO_SERVER };
    bool record_only = invocation->flags[FLAG_NO_SERVER] != NULL;
    struct gate gate;

    if (!gate_open(&gate, invocation))
        return EXIT_USAGE;
    if (gate_is_asked(&gate) && record_only) {
        command_complain("run: --fail-on and --report ask the server that --no-server "
                         "leaves out");
        return EXIT_USAGE;
    }
    return run_job(&invocation->options, invocation->flags[FLAG_NAME], record_only,
                   &gate, invocation->argv);
}

int command_demo(const struct invocation *invocation)
{
    static const struct gate none;
    char program[PLACE_BYTES], **argv;
    int code;

    if (invocation->argc > 0 && invocation->argv[0][0] != '-') {
        /* train_mlp takes flags alone: somebody forgot what says that it is a command. */
        command_complain("demo: '%.60s' is no flag; your own command stands behind --: "
                         "`trainglass run -- %.60s ...`, `./run.sh -- %.60s ...`",
                         invocation->argv[0], invocation->argv[0], invocation->argv[0]);
        return EXIT_USAGE;
    }
    if (!place_find(PLACE_EXAMPLE, program)) {
        command_complain("the demo's program train_mlp is not beside this one");
        return EXIT_CANNOT_START;
    }
    argv = calloc((size_t)invocation->argc + 2, sizeof(*argv));
    if (argv == NULL)
        return EXIT_CANNOT_START;
    argv[0] = program;
    for (int i = 0; i < invocation->argc; i++)
        argv[i + 1] = invocation->argv[i];
    code = run_job(&invocation->options, "demo", invocation->flags[0] != NULL, &none,
                   argv);
    free(argv);
    return code;
}
