/* trainglass run: a server beside the command, the command as a child. */
#include "command/live/run.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/gate.h"
#include "command/live/announce.h"
#include "command/live/child.h"
#include "command/live/contract.h"
#include "command/live/launch.h"
#include "command/places.h"
#include "command/segments/own_figure.h"
#include "wire/run_note.h"

/* Under SSH the page is on the far machine: the line that brings it here. */
static void print_ssh_line(uint16_t port)
{
    const char *connection = getenv("SSH_CONNECTION"), *user = getenv("USER");
    char host[64];
    unsigned ssh_port;

    if (connection == NULL ||
        sscanf(connection, "%*s %*s %63s %u", host, &ssh_port) != 2)
        return;
    if (ssh_port == 22)
        command_complain("from your machine: ssh -L %u:localhost:%u %s@%s", port, port,
                         user ? user : "USER", host);
    else
        command_complain("from your machine: ssh -p %u -L %u:localhost:%u %s@%s",
                         ssh_port, port, port, user ? user : "USER", host);
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

int run_command(const struct run_request *request)
{
    const struct options *options = request->options;
    struct contract contract;
    struct launched launched = {.runs_lock = -1};
    struct child_end end;
    int code = child_check(request->argv[0]);

    if (code != 0)
        return code;
    child_block_signals();
    contract_open(&contract, options, request->name, request->argv);
    if (request->server) {
        launch_server(&launched, options, contract.directory);
        print_address(&launched, options);
        contract.port = launched.port;
        if (!launched
                 .joined) /* else it is another server's, with a folder of its own */
            place_warn_of_state(options);
    }
    bool unusable = place_warn_of_directory(contract.directory);

    unsetenv("TRAINGLASS_TOKEN"); /* the page's, not the job's */
    contract_export(&contract, options, request->argv);
    int share = (int)options_number(options, OPTION_SHARE);
    pid_t child = child_start(request->argv);
    int announced =
        child < 0 ? -1 : announce_command(&contract, request->argv, child, share);

    end = child_wait(child);
    announce_end(&contract, announced);
    if (!contract_close(&contract, child, &end, share) && child > 0 && !unusable)
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

    return gate_close(request->gate, &run);
}

enum flag { FLAG_NAME, FLAG_NO_SERVER };

int command_run(const struct invocation *invocation)
{
    struct gate gate;
    const struct run_request request = {.options = &invocation->options,
                                        .name = invocation->flags[FLAG_NAME],
                                        .server = !invocation->flags[FLAG_NO_SERVER],
                                        .gate = &gate,
                                        .argv = invocation->argv};

    if (!gate_open(&gate, invocation))
        return EXIT_USAGE;
    if (gate_is_asked(&gate) && !request.server) {
        command_complain("run: --fail-on and --report ask the server that --no-server "
                         "leaves out");
        return EXIT_USAGE;
    }
    return run_command(&request);
}
