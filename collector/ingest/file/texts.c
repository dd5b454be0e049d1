/* Names of a trace's reader as texts of its process. */
#include "ingest/file/parts.h"

uint32_t file_text(struct file_texts *texts, uint32_t name)
{
    uint32_t length;

    if (name == 0 || name >= texts->count)
        return 0;
    if (texts->ids[name] == 0) {
        const char *text = trace_names_get(texts->names, name, &length);

        texts->ids[name] = texts_intern(texts->process->texts, text, length) + 1;
    }
    return texts->ids[name] - 1;
}
