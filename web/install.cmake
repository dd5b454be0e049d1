# Installs the packages of one lock file into the build folder, once:
#   cmake -D SOURCE=folder -D TARGET=folder -D NPM=program -P install.cmake
# The stamp is written last, so an interrupted run is repeated and a finished one never is.
if(EXISTS ${TARGET}/installed AND ${TARGET}/installed IS_NEWER_THAN ${SOURCE}/package-lock.json)
  return()
endif()
if(NOT NPM)
  message(FATAL_ERROR "The page needs npm to install Chart.js and speedscope: "
    "apt-get install npm (or build the probe alone with -DPROBE_ONLY=ON)")
endif()
file(MAKE_DIRECTORY ${TARGET})
file(COPY ${SOURCE}/package.json ${SOURCE}/package-lock.json DESTINATION ${TARGET})
execute_process(
  COMMAND ${NPM} ci --ignore-scripts --no-audit --no-fund --prefer-offline --loglevel=error
  WORKING_DIRECTORY ${TARGET} RESULT_VARIABLE failed OUTPUT_QUIET ERROR_VARIABLE said)
if(failed)
  message(FATAL_ERROR "npm could not install the packages of ${SOURCE}/package-lock.json (it needs "
    "the npm registry or a filled npm cache once): run 'npm ci' there to see more.\n${said}")
endif()
file(TOUCH ${TARGET}/installed)
