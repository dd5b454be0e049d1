/* The words that the segment's numbers have wherever a person or a program reads them:
 * "unknown" for a number that has none. Static. */
#ifndef WIRE_WORDS_H
#define WIRE_WORDS_H

#include <stdint.h>

const char *wire_role_word(uint32_t role);          /* enum wire_role */
const char *wire_level_word(uint32_t level);        /* enum wire_level */
const char *wire_source_word(uint32_t source);      /* enum wire_source */
const char *wire_source_state_word(uint32_t state); /* enum wire_source_state */

/* enum event_phase; "other" for EVENT_PHASES. */
const char *wire_phase_word(uint32_t phase);

#endif
