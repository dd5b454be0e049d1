/* The command as our child: its own input and output, its own exit code. */
#ifndef COMMAND_CHILD_H
#define COMMAND_CHILD_H

#include <signal.h>
#include <sys/types.h>

struct child_end {
    int code;   /* as a shell shows it: 128 + n for a signal, 127, 126 */
    int signal; /* that ended it; 0 none */
    int asked;  /* INT, TERM or HUP that came to us in the minute before; 0 none */
};

/* The signals that ask to end: INT, TERM and HUP. */
void child_end_signals(sigset_t *set);

/* 0 when argv[0] can be executed, else 127 (not found) or 126 (not executable) and a
 * line on stderr. */
int child_check(const char *program);

/* Blocks the signals that are forwarded; before child_start() and anything slow, so that
 * none is lost in between. */
void child_block_signals(void);

/* Starts argv with the signal state of before child_block_signals(); -1 after a line on
 * stderr. */
pid_t child_start(char *const *argv);

/* Forwards signals, reaps every child, follows the stops of this one, and returns how it
 * ended; 126 where none was started. */
struct child_end child_wait(pid_t child);

/* After child_wait(), who asks us alone to end is heard: INT, TERM and HUP, where they are
 * not ignored, go to `handler` once and then end us. Lines that nobody reads are survived
 * as before. */
void child_hear_signals(void (*handler)(int number));

/* In a forked child: the signal state of before child_block_signals(). */
void child_restore_signals(void);

#endif
