/* What stands and what was fixed, as text for the run store and back: a server that comes
 * after says the same. The text is from a file, and read as one: what is not understood
 * is left out. */
#ifndef JUDGE_SAID_H
#define JUDGE_SAID_H

#include <stdbool.h>

#include "findings/standing.h"

#define SAID_BYTES 65536u /* of a text; a longer one is not read */

/* cJSON_free() is owed; NULL without memory. */
char *said_print(const struct standing *standing);

/* False when it is no such text; then `standing` is empty. */
bool said_read(const char *text, struct standing *standing);

#endif
