/* A configuration file: any bytes; what was taken lies in its range. */

#include "command/config.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct options options;
    int64_t port;

    options_init(&options);
    if (config_read_text(&options, (const char *)data, size, OPTION_FROM_FILE,
                         "fuzz") != 0 &&
        options.error[0] == '\0')
        abort();
    port = options_number(&options, OPTION_PORT);
    if (port < 0 || port > 65535 || options.values[OPTION_BUDGET].real > 100)
        abort();
    return 0;
}
