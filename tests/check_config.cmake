# config/trainglass.conf says what the table in server/command/options.c says.
execute_process(COMMAND ${PROGRAM} --print-config OUTPUT_VARIABLE written RESULT_VARIABLE failed)
file(READ ${FILE} kept)
if(failed OR NOT written STREQUAL kept)
  message(FATAL_ERROR "${FILE} is stale: trainglass --print-config > ${FILE}")
endif()
