#include "trace/document.h"

#include <string.h>

#include "http/http.h"

void document_answer(struct http_call *call, int status, cJSON *document)
{
    char *text = cJSON_PrintUnformatted(document);

    cJSON_Delete(document);
    if (text == NULL)
        http_refuse(call, 503, NULL, "out of memory");
    else
        http_answer(call, &(struct http_answer){
                              .status = status, .body = text, .size = strlen(text)});
    cJSON_free(text);
}
