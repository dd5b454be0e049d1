#include "probe/cupti/calls.h"

#include <string.h>

#include "probe/probe.h"

static uint32_t row_of(uint32_t domain)
{
    return domain == CUPTI_DOMAIN_RUNTIME;
}

enum call_class calls_classify(const char *name)
{
    /* The first word that fits decides. */
    static const struct {
        const char *word;
        enum call_class class;
    } rows[] = {
        {"LaunchHostFunc", CALL_OTHER},
        {"Attribute", CALL_OTHER},
        {"Node", CALL_OTHER},
        {"GetParams", CALL_OTHER},
        {"GraphLaunch", CALL_LAUNCH},
        {"Launch", CALL_LAUNCH},
        {"Memcpy", CALL_LAUNCH},
        {"Memset", CALL_LAUNCH},
        {"Synchronize", CALL_SYNC},
        {"Malloc", CALL_MEMORY},
        {"cudaFree", CALL_MEMORY},
        {"cuMemAlloc", CALL_MEMORY},
        {"cuMemFree", CALL_MEMORY},
        {"cuMemCreate", CALL_MEMORY},
        {"cuMemMap", CALL_MEMORY},
        {"cuMemUnmap", CALL_MEMORY},
        {"cuMemRelease", CALL_MEMORY},
        {"cudaHostAlloc", CALL_MEMORY},
        {"cuMemHostAlloc", CALL_MEMORY},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strstr(name, rows[i].word) != NULL)
            return rows[i].class;
    return CALL_OTHER;
}

static const char *text_of(const struct cupti_library *library, uint32_t domain,
                           uint32_t call)
{
    const char *text = NULL;

    if (library->callback_name == NULL ||
        library->callback_name(domain, call, &text) != CUPTI_OK)
        return NULL;
    return text;
}

void calls_open(struct calls *calls, const struct cupti_library *library)
{
    memset(calls, 0, sizeof(*calls));
    for (uint32_t domain = CUPTI_DOMAIN_DRIVER; domain <= CUPTI_DOMAIN_RUNTIME;
         domain++)
        for (uint32_t call = 1; call < CALLS_MAX; call++) {
            const char *text = text_of(library, domain, call);

            if (text != NULL)
                calls->classes[row_of(domain)][call] = (uint8_t)calls_classify(text);
        }
}

enum call_class calls_class(const struct calls *calls, uint32_t domain, uint32_t call)
{
    return call < CALLS_MAX ? (enum call_class)calls->classes[row_of(domain)][call]
                            : CALL_UNKNOWN;
}

static size_t without_version(const char *text, size_t length)
{
    size_t digits = length;

    while (digits > 0 && text[digits - 1] >= '0' && text[digits - 1] <= '9')
        digits--;
    return digits < length && digits > 2 && text[digits - 1] == 'v' &&
                   text[digits - 2] == '_'
               ? digits - 2
               : length;
}

/* Bytes of the name without "_v7000", "_ptsz", "_ptds" and "_ptds_v7000". */
static size_t bare_length(const char *text)
{
    size_t length = without_version(text, strlen(text));

    if (length > 5 && (memcmp(text + length - 5, "_ptsz", 5) == 0 ||
                       memcmp(text + length - 5, "_ptds", 5) == 0))
        length -= 5;
    return without_version(text, length);
}

uint32_t calls_name(struct calls *calls, const struct cupti_library *library,
                    uint32_t domain, uint32_t call)
{
    uint32_t *name = call < CALLS_MAX ? &calls->names[row_of(domain)][call] : NULL;

    if (name == NULL || *name != 0)
        return name != NULL ? *name : 0;
    const char *text = text_of(library, domain, call);

    *name = text != NULL ? probe_name_bytes(text, bare_length(text)) : 0;
    return *name;
}

int calls_enable(struct calls *calls, const struct cupti_library *library, bool enable)
{
    int (*const one[2])(uint32_t, uint8_t) = {library->enable_driver,
                                              library->enable_runtime};
    static const uint32_t kinds[2] = {CUPTI_DRIVER, CUPTI_RUNTIME};
    int first = CUPTI_OK;

    calls->were_on |= enable;
    for (uint32_t row = 0; row < 2; row++) {
        int error = (enable ? library->enable : library->disable)(kinds[row]);
        bool choose = enable && error == CUPTI_OK && one[row] != NULL;

        first = first != CUPTI_OK ? first : error;
        for (uint32_t call = 1; choose && call < CALLS_MAX; call++)
            if (calls->classes[row][call] == CALL_OTHER)
                (void)one[row](call, 0); /* recorded all the same, it is passed over */
    }
    return first;
}
