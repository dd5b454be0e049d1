#!/usr/bin/env bash
# Everything that must hold, with all of its set-up; twice is fine.
#   ./test.sh            all tests (about three quarters of an hour on two cores)
#   ./test.sh --quick    without PyTorch, sanitizers and fuzzing: under 3 minutes once built
#   ./test.sh --long     all, and the long modes: thousands of kills, an hour replayed, a deep analysis
#   ./test.sh --diseases the matrix of jobs that are ill, with prices, at all doses, and how soon each
#                        is found and told as cured (an hour and a half of an idle machine)
#   ./test.sh --matrix   every pair of Python, PyTorch and Lightning that can be had here
#                        (about two hours; tens of GB in the cache folder; -- 3.9 3.12/2.5: some)
#   ./test.sh --coverage which lines of the Python package its tests run (10 minutes)
#   ./test.sh STAGE...   some stages: build asan tsan fuzz cross tidy
# What follows -- goes to ctest of the first stage: ./test.sh build -- -R e2e.run
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
. .ci/packages.sh
. .ci/torch.sh

case "${1:-}" in -h|--help) sed -n '2,12s/^# \{0,1\}//p' test.sh; exit 0 ;; esac

all="build asan tsan fuzz cross tidy"
stages="" mode=full
while [ $# -gt 0 ]; do
  case $1 in
    --quick) mode=quick stages=build ;;
    --long) mode=long ;;
    --diseases) mode=diseases stages=build ;;
    --matrix) mode=matrix stages=build ;;
    --coverage) mode=coverage stages=build ;;
    --) shift; break ;;
    -*) die "unknown flag $1; see ./test.sh --help" ;;
    *) case " $all " in *" $1 "*) stages="$stages $1" ;; *) die "no stage $1; there are: $all" ;; esac ;;
  esac
  shift
done
stages=${stages:-$all}
has() { case " $stages " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }

passed=0 failed=0 skipped=0
broken=() # what failed, for the last lines

# count FILE NAME: adds up a JUnit file of ctest.
count() {
  local run fail skip names
  read -r run fail skip names < <(python3 - "$1" <<'PY'
import sys, xml.etree.ElementTree as tree
cases = tree.parse(sys.argv[1]).getroot().findall("testcase")
failed = [c.get("name") for c in cases if c.get("status") == "fail"]
skipped = [c for c in cases if c.get("status") in ("notrun", "disabled")]
print(len(cases) - len(failed) - len(skipped), len(failed), len(skipped), *failed)
PY
  ) || return
  passed=$((passed + run)) failed=$((failed + fail)) skipped=$((skipped + skip))
  for name in $names; do broken+=("$2: $name"); done
}

# one NAME COMMAND...: a check that is no ctest; its output only when it fails.
one() {
  local name=$1 log; shift
  log=$(mktemp)
  if "$@" >"$log" 2>&1; then passed=$((passed + 1)); say "$name: passed"
  else failed=$((failed + 1)) broken+=("$name"); tail -60 "$log"; say "$name: FAILED"
  fi
  rm -f "$log"
}

# one_shown NAME COMMAND...: the same, but its output is what it is for.
one_shown() {
  local name=$1; shift
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)) broken+=("$name"); fi
}

build() { # PRESET [cmake option...]
  local preset=$1; shift
  cmake --preset "$preset" "$@" && cmake --build --preset "$preset"
}

tests() { # NAME FOLDER ctest-option...
  local name=$1 folder=$2; shift 2
  rm -f "$folder/tests.xml"
  ctest --test-dir "$folder" --output-on-failure --output-junit "$PWD/$folder/tests.xml" -j "$jobs" --timeout 900 "$@"
  [ -e "$folder/tests.xml" ] && count "$folder/tests.xml" "$name"
}

stage() { # NAME: a heading with the time
  say "---- $1, after $((SECONDS / 60)) min $((SECONDS % 60)) s"
}

jobs=$((2 * $(nproc))) # half cores, as tests/CMakeLists.txt counts them
simulated='^unit\.(experiment|governor|fixed|flicker|marks)$' # thousands of jobs, one after the other, in arithmetic
hosted='^e2e\.(stacks|trace_rules|windows)$' # a Python that knows no sanitizer cannot host a library that has one
export TRAINGLASS_TEST_MODE=$mode
# shellcheck disable=SC2086 # lists
install_missing $BUILD_PACKAGES $TEST_PACKAGES
provide_npm "$PWD/build/node"
PATH=$PATH:$PWD/build/node/bin
[ "$mode" = quick ] || install_missing buildah podman runc debootstrap
# Ubuntu's chromium is a snap that starts nowhere here: the browser tests then skip with a message.
[ "$mode" = quick ] || { grep -q '^ID=ubuntu' /etc/os-release || install_missing chromium; }

torch_log=$(mktemp)
if has build && [ "$mode" != quick ]; then
  # PyTorch comes while we build.
  ( provide_torch && printf 'TORCH_%s\n' "PYTHON=$TORCH_PYTHON" "OLD_PYTHON=$TORCH_OLD_PYTHON" "LIGHTNING=$LIGHTNING_PYTHON" "HUGGINGFACE=${HUGGINGFACE_PYTHON:-}" "FRAMEWORKS=${FRAMEWORKS_PYTHON:-}" "CUPTI=${CUPTI_INCLUDE:-}" ) >"$torch_log" 2>&1 &
  torch_job=$!
fi

built=
if has build; then
  stage build
  before=$failed
  one "build" build ci
  [ "$failed" = "$before" ] && built=1
fi
# What needs no PyTorch and computes all the time, while it comes.
if has cross; then
  stage "other compilers"
  one "build with clang" build clang
  one "cross build of the probe for aarch64" build aarch64
fi
if has tidy; then
  stage tidy
  one "clang-tidy" .ci/tidy "$mode"
fi
if [ -n "${torch_job:-}" ]; then
  if ! wait "$torch_job"; then failed=$((failed + 1)) broken+=("PyTorch"); fi
  grep -v '^TORCH_' "$torch_log"
  # shellcheck disable=SC1090 # two assignments
  . <(grep '^TORCH_' "$torch_log"); export TORCH_PYTHON TORCH_OLD_PYTHON LIGHTNING_PYTHON="${TORCH_LIGHTNING:-}" HUGGINGFACE_PYTHON="${TORCH_HUGGINGFACE:-}" FRAMEWORKS_PYTHON="${TORCH_FRAMEWORKS:-}" CUPTI_INCLUDE="${TORCH_CUPTI:-}"
fi
if [ -n "$built" ]; then
  stage "${mode/full/tests}"
  case $mode in
    quick) tests quick build -LE 'torch|slow|long' -E '^web\.(browser|packages)' "$@" ;;
    diseases)
      one_shown "$mode" python3 -B tests/diseases/matrix.py "$@"
      [ $# -gt 0 ] || one_shown "how soon" python3 -B tests/diseases/onset.py
      ;;
    matrix) one_shown "$mode" python3 -B tests/python/matrix.py "$@" ;;
    coverage) one_shown "$mode" python3 -B tests/python/covered.py "$@" ;;
    *)
      long=(); [ "$mode" = long ] || long=(-LE long)
      if [ $# -eq 0 ]; then
        tests "unit tests" build "${long[@]}" -R '^(unit|check)\.'
        set -- -E '^(unit|check)\.'
      fi
      # A browser on two busy cores misses a deadline now and then: what fails twice has failed.
      tests tests build "${long[@]}" --repeat until-pass:2 "$@"
      ;;
  esac
fi
if has asan; then
  stage "asan and ubsan"
  before=$failed
  one "build with asan and ubsan" build asan
  if [ "$failed" = "$before" ]; then
    export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
    tests asan build-asan -R '^unit\.' -E "$simulated" -LE 'long|slow'
    # Jobs of several processes, ten times slower: again what fails twice has failed. What
    # findings, gates and the self-test say is arithmetic, which the unit tests have; the meters
    # run under tsan.
    tests "asan, whole jobs" build-asan -R '^e2e\.' -E "$hosted|^e2e\.(findings|gate|selftest|gpu_meters)$" -LE 'torch|long|slow' --repeat until-pass:2
    unset ASAN_OPTIONS UBSAN_OPTIONS
  fi
fi
if has tsan; then
  stage tsan
  before=$failed
  one "build with tsan" build tsan
  if [ "$failed" = "$before" ]; then
    rm -f build-tsan/report.*
    export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=$PWD/tests/tsan.supp
    TSAN_OPTIONS+=:log_path=$PWD/build-tsan/report
    # A weakened memory order shows in one run of two to four.
    tests "tsan, the format 20 times" build-tsan -R '^unit\.(ring|names|segment|probe)$' --repeat until-fail:20
    # Threads of ours are in the server and the probe; kills and whole jobs ran above. What has
    # one thread alone and computes for long has nothing to find here.
    tests tsan build-tsan -R '^unit\.' -E "$simulated|^unit\.(ring|names|segment|probe|survival|any_summary|trace_(damage|gzip|large)\.alone)$"
    # A job too slow for its test may try again; a race that was seen once stands in its report.
    tests "tsan, whole jobs" build-tsan -R '^e2e\.(gpu|gpu_calls|gpu_faults|gpu_graphs|gpu_meters|gpu_owners|gpu_traces|http|run_server|program)$' --repeat until-pass:2
    one "no report of tsan" bash -c 'for report in build-tsan/report.*; do [ ! -e "$report" ] || { cat build-tsan/report.*; exit 1; }; done'
    unset TSAN_OPTIONS
  fi
fi
if has fuzz; then
  stage fuzz
  before=$failed seconds=15
  [ "$mode" = long ] && seconds=1800
  one "build of the fuzz targets" build fuzz -DFUZZ_SECONDS=$seconds
  [ "$failed" = "$before" ] && tests fuzz build-fuzz -R '^fuzz\.' --timeout $((seconds + 120))
fi
rm -f "$torch_log"

say "---- done after $((SECONDS / 60)) min $((SECONDS % 60)) s"
[ ${#broken[@]} = 0 ] || printf '  failed: %s\n' "${broken[@]}"
[ "$((passed + failed))" -gt 0 ] || { broken+=("no test ran"); failed=1; }
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
