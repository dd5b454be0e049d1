#!/usr/bin/env bash
# The table of figures: what, measured, its 95 % interval, its mark, and hit, missed (beyond
# the mark with the whole interval) or undecided (the interval is too wide to say).
#   ./bench.sh             all of them (`overhead` takes up to two hours, the others some
#                          minutes; an idle machine)
#   ./bench.sh ring http   only tests/bench/bench_ring.*, bench_http.*
# Exits 1 when a figure is missed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
. .ci/packages.sh
. .ci/torch.sh

case "${1:-}" in -h|--help) sed -n '2,7s/^# \{0,1\}//p' bench.sh; exit 0 ;; esac
# shellcheck disable=SC2086 # lists
install_missing $BUILD_PACKAGES libcmocka-dev
provide_npm "$PWD/build/node"
PATH=$PATH:$PWD/build/node/bin
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{ cmake --preset default -DTESTS=ON && cmake --build --preset default; } >"$log" 2>&1 || { tail -40 "$log"; die "the build failed"; }

table=$(mktemp)
trap 'rm -f "$log" "$table"' EXIT
failed=0
# run NAME COMMAND...: its lines are the table; one that ends without any is a failure.
run() {
  local name=$1 lines; shift
  lines=$(wc -l <"$table")
  "$@" 2>"$log" | tee -a "$table"
  if [ "$(wc -l <"$table")" = "$lines" ]; then
    say "$name measured nothing"; tail -5 "$log" >&2; failed=1
  fi
}
wanted() { [ $# = 1 ] && return 0; local name=$1 other; shift; for other; do [ "$name" = "$other" ] && return 0; done; return 1; }

for source in tests/bench/bench_*.c tests/bench/bench_*.py tests/bench/*.mjs; do
  name=${source##*/}; name=${name#bench_}; name=${name%.*}
  [ "$source" = tests/bench/bench_server.c ] && continue # what bench_http.py compares with
  [ -e "$source" ] && wanted "$name" "$@" || continue
  case $source in
    *.c) run "$name" "build/bin/bench_$name" ;;
    *.mjs) ctest --test-dir build -R '^web\.packages$' >"$log" 2>&1 || { cat "$log" >&2; failed=1; }
      run "$name" node "$source" ;;
    *.py)
      if grep -qE '\(needs (torch|lightning)' "$source"; then
        provide_torch || { failed=1; continue; }
        with=$TORCH_PYTHON
        grep -q '(needs lightning' "$source" && with=$LIGHTNING_PYTHON
        run "$name" "$with" -B "$source"
      else
        run "$name" python3 -B "$source"
      fi ;;
  esac
done
echo
for word in hit missed undecided; do printf '%s %s   ' "$(grep -cE "\"verdict\": \"$word\"|$word\$" "$table")" "$word"; done
echo
[ "$failed" = 0 ] && ! grep -qE '"verdict": "missed"|missed$' "$table"
