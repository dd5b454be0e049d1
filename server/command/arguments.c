#include "command/arguments.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config.h"

/* Flags are kept until files and environment were read: --config is one of them. */
struct pending {
    int setting; /* enum option_id */
    const char *value;
    const char *flag;
};

struct parsing {
    struct invocation *invocation;
    char **argv;
    int argc, pos;
    const char *config;
    struct pending settings[64];
    int setting_count;
    bool help;
};

static int refuse(struct parsing *parsing, const char *word, const char *why)
{
    struct invocation *invocation = parsing->invocation;

    snprintf(invocation->options.error, sizeof(invocation->options.error),
             "%s: %.200s %s; see `trainglass %s --help`", invocation->command->name,
             word, why, invocation->command->name);
    return -EINVAL;
}

/* Does `word` name `flag`, alone or as flag=value? */
static bool names(const char *word, const char *flag)
{
    size_t length = strlen(flag);

    return strncmp(word, flag, length) == 0 &&
           (word[length] == '\0' || word[length] == '=');
}

/* The value after '=' or in the next word; NULL when there is none. */
static const char *take_value(struct parsing *parsing)
{
    const char *equals = strchr(parsing->argv[parsing->pos], '=');

    if (equals != NULL)
        return equals + 1;
    return parsing->pos + 1 < parsing->argc ? parsing->argv[++parsing->pos] : NULL;
}

static int take_setting(struct parsing *parsing, const char *word)
{
    int id = options_find(word, strcspn(word, "="));
    const char *value;

    int bit = id < OPTION_FINDING ? id : OPTION_FINDING;

    if (id < 0 || !(parsing->invocation->command->settings >> bit & 1))
        return refuse(parsing, word, "is not known here");
    value = take_value(parsing);
    if (value == NULL)
        return refuse(parsing, word, "wants a value");
    if (parsing->setting_count ==
        (int)(sizeof(parsing->settings) / sizeof(parsing->settings[0])))
        return refuse(parsing, word, "is one flag too many");
    parsing->settings[parsing->setting_count++] = (struct pending){id, value, word};
    return 0;
}

/* One value, or several where the flag repeats: none takes the place of another. */
static int keep_flag(struct parsing *parsing, int flag, const char *value)
{
    struct invocation *invocation = parsing->invocation;
    const struct command_flag *row = &invocation->command->flags[flag];
    const char *before = invocation->flags[flag];

    if (value == NULL)
        return refuse(parsing, row->name, "wants a value");
    if (before != NULL && !row->repeats && strcmp(before, value) != 0) {
        snprintf(invocation->options.error, sizeof(invocation->options.error),
                 "%s: %s '%.80s' and %s '%.80s': which of the two?",
                 invocation->command->name, row->name, before, row->name, value);
        return -EINVAL;
    }
    invocation->flags[flag] = value;
    if (!row->repeats)
        return 0;
    if (invocation->repeated_count == COMMAND_REPEATS)
        return refuse(parsing, row->name, "is one flag too many: 16 may repeat");
    invocation->repeated[invocation->repeated_count].flag = flag;
    invocation->repeated[invocation->repeated_count++].value = value;
    return 0;
}

int command_values(const struct invocation *invocation, const char *name,
                   const char *values[COMMAND_REPEATS])
{
    const struct command_flag *flags = invocation->command->flags;
    int count = 0;

    for (int i = 0; i < invocation->repeated_count; i++)
        if (strcmp(flags[invocation->repeated[i].flag].name, name) == 0)
            values[count++] = invocation->repeated[i].value;
    return count;
}

static int take_flag(struct parsing *parsing, const char *word)
{
    struct invocation *invocation = parsing->invocation;
    const struct command_flag *flags = invocation->command->flags;

    if (names(word, "--config"))
        return (parsing->config = take_value(parsing)) != NULL
                   ? 0
                   : refuse(parsing, word, "wants a file");
    for (int i = 0; i < COMMAND_FLAGS && flags[i].name != NULL; i++) {
        if (!names(word, flags[i].name))
            continue;
        if (flags[i].argument == NULL && strchr(word, '=') != NULL)
            return refuse(parsing, word, "takes no value");
        return keep_flag(parsing, i, flags[i].argument ? take_value(parsing) : "");
    }
    return take_setting(parsing, word);
}

/* Words to flags and arguments; arguments are moved to the front of argv. */
static int take_words(struct parsing *parsing)
{
    struct invocation *invocation = parsing->invocation;
    bool flags = true;

    for (parsing->pos = 0; parsing->pos < parsing->argc; parsing->pos++) {
        char *word = parsing->argv[parsing->pos];
        int error = 0;

        if (flags && strcmp(word, "--") == 0)
            flags = false;
        else if (flags && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0))
            parsing->help = true;
        else if (flags && strcmp(word, "--json") == 0)
            invocation->json = true;
        else if (flags && word[0] == '-' && word[1] != '\0')
            error = take_flag(parsing, word);
        else {
            invocation->argv[invocation->argc++] = word;
            if (invocation->argc == invocation->command->stops_at_argument)
                flags = false;
        }
        if (error != 0)
            return error;
    }
    return 0;
}

static int read_settings(struct parsing *parsing, const char *config,
                         char *const *environment)
{
    struct options *options = &parsing->invocation->options;
    int error = config ? config_read(options, config, OPTION_FROM_CONFIG) : 0;

    if (error != 0 && error != -ENOENT)
        return error;
    if (parsing->config != NULL)
        error = config_read(options, parsing->config, OPTION_FROM_FILE);
    else
        error = 0;
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
    struct parsing parsing = {.invocation = invocation, .argc = argc, .argv = argv};
    const struct command *command = invocation->command;
    int error;

    options_init(&invocation->options);
    invocation->argv = argv;
    invocation->argc = 0;
    error = take_words(&parsing);
    if (parsing.help)
        return 1;
    if (error != 0)
        return error;
    if (invocation->argc < command->min_arguments)
        return refuse(&parsing, command->arguments, "is missing");
    if (invocation->argc > command->max_arguments)
        return refuse(&parsing, argv[command->max_arguments], "is one word too many");
    argv[invocation->argc] = NULL;
    return read_settings(&parsing, config, environment);
}

static void help_flag(const char *flag, const char *argument, const char *help)
{
    char left[64];

    snprintf(left, sizeof(left), "%s%s%s", flag, argument ? " " : "",
             argument ? argument : "");
    printf("  %-28s %s\n", left, help);
}

static void help_setting(const struct option_key *key)
{
    char flag[48] = "--", range[200];
    size_t length = 2;

    for (const char *c = key->name; *c != '\0' && length + 1 < sizeof(flag); c++)
        flag[length++] = *c == '_' ? '-' : *c;
    options_describe(key, range, sizeof(range));
    help_flag(flag, "VALUE", key->help);
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
    if (command->run != command_run && command->run != command_demo &&
        command->run != command_serve)
        help_flag("--json", NULL, "answer in JSON");
    help_flag("--config", "FILE", "settings from FILE; see trainglass --print-config");
    for (int id = 0; id < OPTION_FINDING; id++)
        if (command->settings >> id & 1)
            help_setting(option_key(id));
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
