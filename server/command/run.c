/* trainglass run: a server beside the command, the command as a child. */
#include "run.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "contract.h"
#include "launch.h"

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

int run_command(const struct options *options, const char *name, bool server,
                char **argv)
{
    struct contract contract;
    struct launched launched = {.runs_lock = -1};
    struct child_end end;
    int code = child_check(argv[0]);

    if (code != 0)
        return code;
    contract_open(&contract, options, name, argv);
    child_block_signals();
    if (server) {
        launch_server(&launched, options, contract.directory);
        print_address(&launched, options);
    }
    unsetenv("TRAINGLASS_TOKEN"); /* the page's, not the job's */
    contract_export(&contract, options);
    end = child_run(argv);
    contract_close(&contract, end.code, end.signal);
    /* The lock goes with us; the server lingers from here. */
    return end.code;
}

int command_run(const struct invocation *invocation)
{
    return run_command(&invocation->options, invocation->flags[0],
                       invocation->flags[1] == NULL, invocation->argv);
}
