#include "command/arguments.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "command/config.h"

/* Flags are kept until files and environment were read: --config is one of them. */
struct pending {
    int setting; /* enum option_id */
    const char *value;
    const char *flag;
};

struct parsing {
    struct invocation *invocation;
    const char *config;
    struct pending settings[64];
    int setting_count;
    bool help;
};

/* What getopt_long_only() returns, besides '?' and ':'. */
enum code {
    CODE_END = -1,    /* no more words, or "--" */
    CODE_UNKNOWN = 0, /* a flag that the command does not take */
    CODE_ARGUMENT = 1,
    CODE_HELP = 256,
    CODE_JSON,
    CODE_CONFIG,
    CODE_FLAG,                                /* the first of the command's own */
    CODE_SETTING = CODE_FLAG + COMMAND_FLAGS, /* the first of the settings */
};

#define ROWS (5 + COMMAND_FLAGS + 2 * OPTIONS)

static int refuse(struct parsing *parsing, const char *word, const char *why)
{
    struct invocation *invocation = parsing->invocation;

    snprintf(invocation->options.error, sizeof(invocation->options.error),
             "%s: %.200s %s; see `trainglass %s --help`", invocation->command->name,
             word, why, invocation->command->name);
    return -EINVAL;
}

/* The flags of a command: -o is a long one as well, a setting has two spellings. */
static void list_flags(const struct command *command, struct option rows[ROWS])
{
    const struct command_flag *flag = command->flags;

    *rows++ = (struct option){"help", no_argument, NULL, CODE_HELP};
    *rows++ = (struct option){"h", no_argument, NULL, CODE_HELP};
    *rows++ = (struct option){"json", no_argument, NULL, CODE_JSON};
    *rows++ = (struct option){"config", required_argument, NULL, CODE_CONFIG};
    for (int i = 0; i < COMMAND_FLAGS && flag[i].name != NULL; i++)
        *rows++ = (struct option){flag[i].name + strspn(flag[i].name, "-"),
                                  flag[i].argument ? required_argument : no_argument,
                                  NULL, CODE_FLAG + i};
    for (int id = 0; id < options_count(); id++) {
        if (!(command->settings >> (id < OPTION_FINDING ? id : OPTION_FINDING) & 1))
            continue;
        *rows++ = (struct option){option_flag(id) + 2, required_argument, NULL,
                                  CODE_SETTING + id};
        *rows++ = (struct option){option_key(id)->name, required_argument, NULL,
                                  CODE_SETTING + id};
    }
    *rows = (struct option){0};
}

/* The code of the next word; getopt's abbreviations are unknown flags here. */
static int next_code(int argc, char **argv, const struct option *rows, bool *refused)
{
    const char *word = argv[optind == 0 ? 1 : optind];
    int code = getopt_long_only(argc, argv, "-:", rows, NULL);

    *refused = code == '?' || code == ':';
    code = *refused ? optopt : code;
    if (code == CODE_END || code == CODE_ARGUMENT)
        return code;
    for (; rows->name != NULL; rows++) {
        size_t length = strlen(rows->name), dashes = length > 1 ? 2 : 1;

        if (rows->val == code && strcspn(word, "=") == dashes + length)
            return code;
    }
    return CODE_UNKNOWN;
}

/* A flag without its value, with one that it does not take, or unknown. */
static int refuse_flag(struct parsing *parsing, int code, const char *word)
{
    const struct command_flag *flags = parsing->invocation->command->flags;

    if (code < CODE_CONFIG)
        return refuse(parsing, word, "is not known here");
    if (code == CODE_CONFIG)
        return refuse(parsing, word, "wants a file");
    if (code >= CODE_SETTING)
        return refuse(parsing, word, "wants a value");
    if (flags[code - CODE_FLAG].argument == NULL)
        return refuse(parsing, word, "takes no value");
    return refuse(parsing, flags[code - CODE_FLAG].name, "wants a value");
}

/* One value, or several where the flag repeats: none takes the place of another. */
static int keep_flag(struct parsing *parsing, int flag, const char *value)
{
    struct invocation *invocation = parsing->invocation;
    const struct command_flag *row = &invocation->command->flags[flag];
    const char *before = invocation->flags[flag];
    bool repeats = invocation->command->repeats >> flag & 1;

    if (before != NULL && !repeats && strcmp(before, value) != 0) {
        snprintf(invocation->options.error, sizeof(invocation->options.error),
                 "%s: %s '%.80s' and %s '%.80s': which of the two?",
                 invocation->command->name, row->name, before, row->name, value);
        return -EINVAL;
    }
    invocation->flags[flag] = value;
    if (!repeats)
        return 0;
    if (invocation->repeated_count == COMMAND_REPEATS)
        return refuse(parsing, row->name, "is one flag too many: 16 may repeat");
    invocation->repeated[invocation->repeated_count].flag = flag;
    invocation->repeated[invocation->repeated_count++].value = value;
    return 0;
}

static int take_flag(struct parsing *parsing, int code, const char *word)
{
    if (code == CODE_HELP)
        parsing->help = true;
    else if (code == CODE_JSON)
        parsing->invocation->json = true;
    else if (code == CODE_CONFIG)
        parsing->config = optarg;
    else if (code < CODE_SETTING)
        return keep_flag(parsing, code - CODE_FLAG, optarg != NULL ? optarg : "");
    else if (parsing->setting_count <
             (int)(sizeof(parsing->settings) / sizeof(parsing->settings[0])))
        parsing->settings[parsing->setting_count++] =
            (struct pending){code - CODE_SETTING, optarg, word};
    else
        return refuse(parsing, word, "is one flag too many");
    return 0;
}

/* Words to flags and arguments; arguments are moved to the front of argv. */
static int take_words(struct parsing *parsing, int argc, char **argv)
{
    struct invocation *invocation = parsing->invocation;
    int stop = invocation->command->stops_at_argument, code = CODE_UNKNOWN, error;
    struct option rows[ROWS];

    list_flags(invocation->command, rows);
    opterr = optind = 0; /* glibc begins anew, at argv[1] */
    while (invocation->argc < stop || stop == 0) {
        char *word = argv[optind == 0 ? 1 : optind];
        bool refused;

        code = next_code(argc, argv, rows, &refused);
        if (code == CODE_END)
            break;
        if (code == CODE_ARGUMENT) {
            invocation->argv[invocation->argc++] = word;
            continue;
        }
        error = refused || code == CODE_UNKNOWN ? refuse_flag(parsing, code, word)
                                                : take_flag(parsing, code, word);
        if (error != 0)
            return error;
    }
    while (optind < argc)
        invocation->argv[invocation->argc++] = argv[optind++];
    return 0;
}

static int read_settings(struct parsing *parsing, const char *config,
                         char *const *environment)
{
    struct options *options = &parsing->invocation->options;
    int error = config ? config_read(options, config, OPTION_FROM_CONFIG) : 0;

    if (error != 0 && error != -ENOENT)
        return error;
    error = parsing->config != NULL
                ? config_read(options, parsing->config, OPTION_FROM_FILE)
                : 0;
    if (error == 0)
        error = options_read_environment(options, environment);
    for (int i = 0; error == 0 && i < parsing->setting_count; i++) {
        const struct pending *setting = &parsing->settings[i];

        error = options_set(options, (enum option_id)setting->setting, setting->value,
                            OPTION_FROM_FLAG, setting->flag);
    }
    return error != 0 ? -EINVAL : 0;
}

int arguments_parse(struct invocation *invocation, int argc, char **argv,
                    const char *config, char *const *environment)
{
    struct parsing parsing = {.invocation = invocation};
    const struct command *command = invocation->command;
    int error;

    options_init(&invocation->options);
    invocation->argv = argv + 1;
    invocation->argc = 0;
    error = take_words(&parsing, argc, argv);
    if (parsing.help)
        return 1;
    if (error != 0)
        return error;
    if (invocation->argc < command->min_arguments)
        return refuse(&parsing, command->arguments, "is missing");
    if (invocation->argc > command->max_arguments)
        return refuse(&parsing, invocation->argv[command->max_arguments],
                      "is one word too many");
    invocation->argv[invocation->argc] = NULL;
    return read_settings(&parsing, config, environment);
}

static void help_flag(const char *flag, const char *argument, const char *help)
{
    char left[64];

    snprintf(left, sizeof(left), "%s%s%s", flag, argument ? " " : "",
             argument ? argument : "");
    printf("  %-28s %s\n", left, help);
}

static void help_setting(int id)
{
    const struct option_key *key = option_key(id);
    char range[200];

    options_describe(key, range, sizeof(range));
    help_flag(option_flag(id), "VALUE", key->help);
    printf("  %-28s %s%s%s; default %s\n", "", range,
           key->type <= OPTION_TYPE_ADDRESS && *key->values ? "; " : "",
           key->type <= OPTION_TYPE_ADDRESS ? key->values : "",
           *key->initial ? key->initial : "empty");
}

void arguments_help_command(const struct command *command)
{
    printf("trainglass %s%s%s%s\n\n", command->name,
           command->settings ? " [FLAG...]" : "", *command->arguments ? " " : "",
           command->arguments);
    printf("%s\nFlags:\n", command->help);
    for (int i = 0; i < COMMAND_FLAGS && command->flags[i].name != NULL; i++)
        if (command->flags[i].help != NULL)
            help_flag(command->flags[i].name, command->flags[i].argument,
                      command->flags[i].help);
    if (!command->hides_json)
        help_flag("--json", NULL, "answer in JSON");
    help_flag("--config", "FILE", "settings from FILE; see trainglass --print-config");
    for (int id = 0; id < OPTION_FINDING; id++)
        if (command->settings >> id & 1)
            help_setting(id);
    if (command->settings >> OPTION_FINDING & 1)
        help_flag(
            "--finding-RULE", "VALUE",
            "from where on a rule finds something; see trainglass --print-config");
}

void arguments_help(void)
{
    printf("trainglass: watch a training job live, at a cost that is measured and kept "
           "small.\n\n"
           "  trainglass run -- python train.py     then open http://localhost:8080\n\n"
           "Commands:\n");
    for (const struct command *command = commands; command->name != NULL; command++)
        printf("  %-10s %s\n", command->name, command->summary);
    printf(
        "\n"
        "  trainglass COMMAND --help             what it does and every flag\n"
        "  trainglass --print-config             every setting with its range\n"
        "  trainglass --version\n\n"
        "Settings: a flag wins over TRAINGLASS_<NAME> in the environment, that over\n"
        "--config FILE, that over config/trainglass.conf.\n");
}
