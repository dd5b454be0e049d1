#include "command/options.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MIB (INT64_C(1) << 20)

/* clang-format off: a table */
static const struct option_key option_keys[OPTION_FINDING] = {
    [OPTION_DIR] =
        {"dir", OPTION_TYPE_TEXT, "", 0, 400, "",
         "empty: /dev/shm/trainglass-<uid>; `serve` then watches those of all users",
         "Folder in shared memory where jobs leave what they record."},
    [OPTION_SHARE] = {"share", OPTION_TYPE_CHOICE, "owner", 0, 0, "", "owner|group|all",
                      "Who besides you may read it and see the page without a token."},
    [OPTION_BUDGET] = {"budget", OPTION_TYPE_REAL, "1", 0, 100, "%", "",
                       "Share of the training's time that recording may cost."},
    [OPTION_LEVEL] = {"level", OPTION_TYPE_CHOICE, "auto", 0, 0, "",
                      "auto|off|phases|ops|kernels|all",
                      "What is recorded in every step; auto keeps to the budget."},
    [OPTION_CUDA_GRAPHS] = {"cuda_graphs", OPTION_TYPE_CHOICE, "nodes", 0, 0, "",
                            "nodes|whole",
                            "What is recorded of a CUDA graph: each kernel, or (from "
                            "CUDA 12.6 on, where CUDA comes up later than trainglass) "
                            "each launch as one piece, for less, but in every step."},
    [OPTION_LINGER] =
        {"linger", OPTION_TYPE_DURATION, "10min", 0, INT64_C(365) * 24 * 3600 * 1000,
         "", "", "How long the server of `run` stays without a job and a viewer."},
    [OPTION_PORT] = {"port", OPTION_TYPE_INTEGER, "8080", 0, 65535, "", "",
                     "Port of the page; 0 takes any free one."},
    [OPTION_BIND] = {"bind", OPTION_TYPE_ADDRESS, "127.0.0.1", 0, 0, "",
                     "auto: 0.0.0.0 in a container with a network of its own, else "
                     "loopback; IPv6 is not served",
                     "Address to listen on; beyond loopback the page wants the token."},
    [OPTION_TOKEN] = {"token", OPTION_TYPE_TEXT, "", 0, 128, "",
                      "empty: made up and printed when `bind` reaches beyond loopback",
                      "Password of the page for whoever is not its owner."},
    [OPTION_BASE_PATH] =
        {"base_path", OPTION_TYPE_TEXT, "", 0, 200, "", "empty: none",
         "Path under which a proxy shows the page, such as /proxy/8080."},
    [OPTION_ALLOW_HOST] = {"allow_host", OPTION_TYPE_TEXT, "", 0, 500, "",
                           "empty: none",
                           "Host names, separated by commas, that the page answers to "
                           "besides localhost."},
    [OPTION_ALLOW_FRAME] = {"allow_frame", OPTION_TYPE_TEXT, "", 0, 200, "",
                            "empty: none", "Origin that may show the page in a frame."},
    [OPTION_STREAM_CLIENTS] = {"stream_clients", OPTION_TYPE_INTEGER, "32", 1, 1024, "",
                               "", "Live viewers at once; one more polls."},
    [OPTION_HISTORY] =
        {"history", OPTION_TYPE_BYTES, "256MiB", MIB, 65536 * MIB, "", "",
         "Memory for the newest events, from which traces are cut; as much "
         "again for files."},
    [OPTION_RUNS] = {"runs", OPTION_TYPE_INTEGER, "200", 0, 100000, "", "",
                     "Earlier runs that are remembered; 0 remembers none."},
    [OPTION_STATE_DIR] = {"state_dir", OPTION_TYPE_TEXT, "", 0, 400, "",
                          "empty: $XDG_STATE_HOME/trainglass",
                          "Folder on disk for earlier runs and the server's log."},
    [OPTION_WINDOW_DIR] = {"window_dir", OPTION_TYPE_TEXT, "", 0, 400, "",
                           "empty: windows/ in state_dir",
                           "Folder on disk for trace files of windows."},
    [OPTION_UPLOAD_MAX] =
        {"upload_max", OPTION_TYPE_BYTES, "2048MiB", MIB, INT64_C(1024) * 1024 * MIB,
         "", "",
         "Largest trace file that the page opens; all that stay open have as much "
         "disk."},
};
/* clang-format on */

/* Keys of the findings' thresholds, made of the table of rules when first asked for;
 * options are read by one thread. */
struct rule_key {
    struct option_key key;
    char name[48], initial[24], help[200];
};
static struct rule_key rule_keys[RULES_MAX];
static int rule_count;

static void make_rule_keys(void)
{
    const struct finding_rule *rule;

    while ((rule = findings_rule((uint32_t)rule_count)) != NULL) {
        struct rule_key *made = &rule_keys[rule_count++];

        snprintf(made->name, sizeof(made->name), "finding_%s", rule->id);
        for (char *c = made->name; *c != '\0'; c++)
            *c = *c == '-' ? '_' : *c;
        snprintf(made->initial, sizeof(made->initial), "%g", rule->threshold);
        snprintf(made->help, sizeof(made->help), "Where the finding %s begins: %s.",
                 rule->id, rule->unit);
        made->key = (struct option_key){.name = made->name,
                                        .type = OPTION_TYPE_REAL,
                                        .initial = made->initial,
                                        .min = rule->min,
                                        .max = rule->max,
                                        .unit = "",
                                        .values = rule->source,
                                        .help = made->help};
    }
}

int options_count(void)
{
    if (rule_count == 0)
        make_rule_keys();
    return OPTION_FINDING + rule_count;
}

const struct option_key *option_key(int id)
{
    return id < OPTION_FINDING ? &option_keys[id] : &rule_keys[id - OPTION_FINDING].key;
}

const char *option_flag(int id)
{
    static char flags[OPTIONS][56];
    char *flag = flags[id];

    snprintf(flag, sizeof(flags[id]), "--%s", option_key(id)->name);
    for (char *c = flag; *c != '\0'; c++)
        *c = *c == '_' ? '-' : *c;
    return flag;
}

void options_findings(const struct options *options, struct findings_settings *settings)
{
    findings_settings_init(settings);
    for (int id = OPTION_FINDING; id < options_count(); id++)
        settings->thresholds[id - OPTION_FINDING] = options->values[id].real;
}

struct suffix {
    const char *name;
    double factor;
};

static const struct suffix byte_suffixes[] = {
    {"", 1},     {"B", 1},       {"KiB", 1024},  {"MiB", 1 << 20}, {"GiB", 1 << 30},
    {"K", 1024}, {"M", 1 << 20}, {"G", 1 << 30}, {NULL, 0},
};
static const struct suffix duration_suffixes[] = {
    {"ms", 1}, {"s", 1000}, {"min", 60e3}, {"m", 60e3}, {"h", 3600e3}, {NULL, 0},
};

void options_init(struct options *options)
{
    memset(options, 0, sizeof(*options));
    for (int id = 0; id < options_count(); id++)
        if (options_set(options, (enum option_id)id, option_key(id)->initial,
                        OPTION_FROM_DEFAULT, "default") != 0)
            abort(); /* the table contradicts itself: test_options proves it does not */
}

int options_find(const char *name, size_t length)
{
    if (length > 2 && name[0] == '-' && name[1] == '-') {
        name += 2;
        length -= 2;
    }
    for (int id = 0; id < options_count(); id++) {
        const char *key = option_key(id)->name;
        size_t i = 0;

        if (strlen(key) != length)
            continue;
        while (i < length && (name[i] == key[i] || (name[i] == '-' && key[i] == '_')))
            i++;
        if (i == length)
            return id;
    }
    return -1;
}

/* A decimal number and what follows it; NAN, infinity and hexadecimal are refused. */
static bool number_parse(const char *text, double *number, const char **rest)
{
    char *end;

    if (!isdigit((unsigned char)text[0]) &&
        !(text[0] == '-' && isdigit((unsigned char)text[1])))
        return false;
    if (strpbrk(text, "xXpP") != NULL)
        return false;
    *number = strtod(text, &end);
    while (*end == ' ')
        end++;
    *rest = end;
    return isfinite(*number);
}

static bool scaled_parse(const char *text, const struct suffix *suffixes,
                         int64_t *value)
{
    const char *rest;
    double number;

    if (!number_parse(text, &number, &rest))
        return false;
    for (; suffixes->name != NULL; suffixes++)
        if (strcasecmp(rest, suffixes->name) == 0 && fabs(number) < 1e15) {
            *value = (int64_t)(number * suffixes->factor);
            return true;
        }
    return *rest == '\0' && number == 0 && (*value = 0, true);
}

static bool choice_parse(const char *text, const char *choices, int64_t *index)
{
    size_t length = strlen(text);

    *index = 0;
    for (const char *word = choices;; word = strchr(word, '|') + 1, ++*index) {
        if (strcspn(word, "|") == length && memcmp(word, text, length) == 0)
            return true;
        if (strchr(word, '|') == NULL)
            return false;
    }
}

static bool value_parse(const struct option_key *key, const char *text,
                        struct option_value *value)
{
    struct in_addr address;
    const char *rest;

    switch (key->type) {
    case OPTION_TYPE_TEXT:
        /* It goes into headers, paths and shell lines: no control characters. */
        for (const char *c = text; *c != '\0'; c++)
            if ((unsigned char)*c < 0x20 || *c == 0x7f)
                return false;
        value->number = (int64_t)strlen(text);
        break;
    case OPTION_TYPE_ADDRESS:
        return strcmp(text, "auto") == 0 || inet_pton(AF_INET, text, &address) == 1;
    case OPTION_TYPE_CHOICE:
        return choice_parse(text, key->values, &value->number);
    case OPTION_TYPE_INTEGER:
        if (!number_parse(text, &value->real, &rest) || *rest != '\0' ||
            fabs(value->real) > 1e15 || value->real != floor(value->real))
            return false;
        value->number = (int64_t)value->real;
        break;
    case OPTION_TYPE_REAL:
        return number_parse(text, &value->real, &rest) &&
               (*rest == '\0' || strcmp(rest, key->unit) == 0) &&
               value->real >= (double)key->min && value->real <= (double)key->max;
    case OPTION_TYPE_BYTES:
        if (!scaled_parse(text, byte_suffixes, &value->number))
            return false;
        break;
    case OPTION_TYPE_DURATION:
        if (strcmp(text, "forever") == 0) {
            value->number = OPTION_FOREVER;
            return true;
        }
        if (!scaled_parse(text, duration_suffixes, &value->number))
            return false;
        break;
    }
    return value->number >= key->min && value->number <= key->max;
}

static const char *bytes_describe(int64_t bytes, char text[32])
{
    bool whole = bytes % (1024 * MIB) == 0;

    snprintf(text, 32, "%lld %s", (long long)(bytes / (whole ? 1024 * MIB : MIB)),
             whole ? "GiB" : "MiB");
    return text;
}

void options_describe(const struct option_key *key, char *text, size_t size)
{
    char low[32], high[32];
    long long min = key->min, max = key->max;

    switch (key->type) {
    case OPTION_TYPE_TEXT:
        snprintf(text, size, "a text of %lld to %lld bytes", min, max);
        break;
    case OPTION_TYPE_ADDRESS:
        snprintf(text, size,
                 "an IPv4 address such as 127.0.0.1 (this machine alone) or 0.0.0.0 "
                 "(every network), or auto");
        break;
    case OPTION_TYPE_CHOICE:
        snprintf(text, size, "one of %s", key->values);
        break;
    case OPTION_TYPE_INTEGER:
        snprintf(text, size, "a whole number from %lld to %lld", min, max);
        break;
    case OPTION_TYPE_REAL:
        snprintf(text, size, "a number from %lld to %lld%s%s", min, max,
                 *key->unit ? " " : "", key->unit);
        break;
    case OPTION_TYPE_BYTES:
        snprintf(text, size, "a size from %s to %s", bytes_describe(min, low),
                 bytes_describe(max, high));
        break;
    case OPTION_TYPE_DURATION:
        snprintf(text, size,
                 "a time such as 0, 30s, 10min or 2h, at most %lld h, or "
                 "forever",
                 max / 3600000);
        break;
    }
}

int options_set(struct options *options, enum option_id id, const char *text,
                enum option_origin origin, const char *place)
{
    const struct option_key *key = option_key((int)id);
    struct option_value value = {.origin = origin};
    char range[200];

    /* A value that loses is checked all the same: its author wants to know. */
    if (strlen(text) >= sizeof(value.text) || !value_parse(key, text, &value)) {
        options_describe(key, range, sizeof(range));
        snprintf(options->error, sizeof(options->error),
                 "%.160s%s%s is '%.80s', not %s", place ? place : "", place ? ": " : "",
                 key->name, id == OPTION_TOKEN ? "..." : text, range);
        return -EINVAL;
    }
    snprintf(value.text, sizeof(value.text), "%s", text);
    if (origin >= options->values[id].origin)
        options->values[id] = value;
    return 0;
}

static void copy_lower(char *to, const char *from, size_t length)
{
    for (size_t i = 0; i < length; i++)
        to[i] = (char)tolower((unsigned char)from[i]);
}

int options_read_environment(struct options *options, char *const *environment)
{
    static const char prefix[] = "TRAINGLASS_";

    for (; *environment != NULL; environment++) {
        const char *key = *environment + sizeof(prefix) - 1;
        char name[64] = "", place[96];

        if (strncmp(*environment, prefix, sizeof(prefix) - 1) != 0)
            continue;
        size_t length = strcspn(key, "=");

        /* Set but empty: as scripts unset what others export. */
        if (length >= sizeof(name) || key[length] == '\0' || key[length + 1] == '\0')
            continue;
        copy_lower(name, key, length);
        int id = options_find(name, length);

        if (id < 0)
            continue; /* TRAINGLASS_SESSION and the like are no settings */
        snprintf(place, sizeof(place), "environment, %s%.*s", prefix, (int)length, key);
        if (options_set(options, (enum option_id)id, key + length + 1,
                        OPTION_FROM_ENVIRONMENT, place) != 0)
            return -EINVAL;
    }
    return 0;
}

static void describe_key(FILE *out, int id)
{
    const struct option_key *key = option_key(id);
    const char *values = key->type != OPTION_TYPE_CHOICE ? key->values : "";
    char range[200];

    options_describe(key, range, sizeof(range));
    fprintf(out, "\n# %s\n", key->help);
    if (id >= OPTION_FINDING) {
        const struct finding_rule *rule =
            findings_rule((uint32_t)(id - OPTION_FINDING));

        fprintf(out, "# Reads: %s.\n# Price: %s.\n", rule->reads, rule->formula);
    }
    fprintf(out, "# %c%s%s%s.\n", toupper((unsigned char)range[0]), range + 1,
            *values ? "; " : "", values);
    fprintf(out, "%s =%s%s\n", key->name, *key->initial ? " " : "", key->initial);
}

void options_print_defaults(FILE *out)
{
    fputs("# Settings of trainglass and their defaults. A flag (--port 9000) wins over "
          "the\n"
          "# environment (TRAINGLASS_PORT=9000), that over --config FILE, that over "
          "this\n"
          "# file. An unknown key or a value outside of its range is an error.\n"
          "# `trainglass --print-config` writes this file.\n",
          out);
    for (int id = 0; id < options_count(); id++)
        describe_key(out, id);
}

const char *options_text(const struct options *options, enum option_id id)
{
    return options->values[id].text;
}

int64_t options_number(const struct options *options, enum option_id id)
{
    return options->values[id].number;
}
