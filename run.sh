#!/usr/bin/env bash
# From a clone to a live page: installs what is missing (and says what), builds, and shows
#   ./run.sh                      the demo, a small real training
#   ./run.sh -- python train.py   your own command, unchanged
#   ./run.sh --build              nothing: only builds
# Flags before -- go to trainglass: ./run.sh --port 9000 -- python train.py
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
here=$PWD
. .ci/packages.sh

case "${1:-}" in
  -h|--help) sed -n '2,6s/^# \{0,1\}//p' "$here/run.sh"; exit 0 ;;
esac

build=${TRAINGLASS_BUILD:-$here/build}
mkdir -p "$build"
options=()
[ -e "$build/CMakeCache.txt" ] || options=(-G Ninja -DTESTS=OFF) # test.sh switches them on

# compile [TARGET...]
compile() {
  local PATH=$PATH:$build/node/bin
  { cmake -S . -B "$build" "${options[@]}" && cmake --build "$build" ${1:+--target "$@"}; } >"$build/run.log" 2>&1 && return
  tail -40 "$build/run.log" >&2
  die "the build failed; all of it is in $build/run.log"
}

# shellcheck disable=SC2086 # a list
install_missing $BUILD_PACKAGES
if ! has_npm "$build/node"; then # most of the program is compiled while it comes
  compile without_page &
  provide_npm "$build/node"
  wait $!
fi
compile
say "built $build/bin/trainglass"

cd "$OLDPWD"
flags=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  [ "$1" = --build ] && exit 0
  flags+=("$1"); shift
done
if [ $# -gt 1 ]; then
  shift
  exec "$build/bin/trainglass" run "${flags[@]}" -- "$@"
fi
exec "$build/bin/trainglass" demo "${flags[@]}"
