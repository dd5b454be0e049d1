/* What a stream's topics carry: small on purpose, at most 8 KB once a second and 4 KB
 * ten times a second. Pure. */
#ifndef STREAM_STREAM_JSON_H
#define STREAM_STREAM_JSON_H

#include <cjson/cJSON.h>

#define STREAM_OPS       10u
#define STREAM_FINDINGS  5
#define STREAM_STEPS_MAX 16u /* rows of one event; more become shortest and longest */
/* Of an op's name and a kernel's short one: 20 and 10 of the longest stay below 8 KB. */
#define STREAM_NAME_BYTES  144u
#define STREAM_SHORT_BYTES 64u

struct bottlenecks_answer;
struct judgement;
struct ops_answer;
struct status_brief;
struct steps_answer;

cJSON *stream_status_json(const struct status_brief *brief);
cJSON *stream_bottlenecks_json(const struct bottlenecks_answer *answer,
                               const struct judgement *judgement);
cJSON *stream_ops_json(const struct ops_answer *cpu, const struct ops_answer *cuda);
cJSON *stream_steps_json(const struct steps_answer *answer);

#endif
