#!/usr/bin/env bash
# Everything that only a real GPU can settle, in one command of under 9 minutes, offline:
#
#     tests/gpu/run.sh [--dry-run] [OUT_DIRECTORY]
#
# Needs an NVIDIA GPU and a python3 (or $TORCH_PYTHON) with a CUDA build of PyTorch; a C
# compiler, with or without CMake; no CivetWeb. Writes RESULTS.md beside itself, and to
# OUT_DIRECTORY when one is given, after each question: what fails, hangs or is missing costs
# no other its answer. Without a GPU it exits 77 and writes nothing. `--dry-run` does what can
# be done without one, prints, and writes nothing but what it builds.
#
#   GPU_CARRY=FOLDER  what cannot be built there: `tests/gpu/carry.sh FOLDER` fills it
#                     elsewhere. Its program is what has the page and the driver's meters:
#                     without it nobody can say how soon a kernel is on the page. Its probe and
#                     coexist are used where no compiler is.
#   GPU_ONLY=WORD     only the questions whose title has it, to OUT_DIRECTORY alone
#   GPU_BUDGET_S=525  for all of it; with less, the last questions are not asked
#   GPU_BUILD=FOLDER  where the probe is built; build-gpu beside tests
set -uo pipefail
budget_s=${GPU_BUDGET_S:-525} # for all of it
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
dry=()
if [ "${1:-}" = --dry-run ]; then dry=(--dry-run); shift; fi
if [ ${#dry[@]} = 0 ] && [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ] \
    && ! timeout 20 nvidia-smi -L 2>/dev/null | grep -q GPU; then
    echo "no NVIDIA GPU here: nothing was measured" >&2
    exit 77
fi

# The first Python that has a torch; without one, any: some questions need none.
python=
for name in "${TORCH_PYTHON:-}" python3 python /opt/conda/bin/python3 /usr/bin/python3; do
    [ -n "$name" ] && command -v "$name" >/dev/null 2>&1 || continue
    python=${python:-$name}
    if timeout 60 "$name" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' \
        2>/dev/null; then python=$name; break; fi
done
[ -n "$python" ] || { echo "no python3 here" >&2; exit 1; }

build=${GPU_BUILD:-$root/build-gpu}
mkdir -p "$build" "${1:-$build}"
cc=$(command -v "${CC:-cc}" || command -v gcc || command -v clang || true)
generator=(); command -v ninja >/dev/null 2>&1 && generator=(-G Ninja)

# The probe alone needs libc and the loader. By CMake, else by the compiler, else as carried.
by_cmake() {
    timeout 30 cmake -S "$root" -B "$build" "${generator[@]}" -DPROBE_ONLY=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo \
        && timeout 60 cmake --build "$build" --target trainglass -j "$(nproc)" \
        && [ -f "$build/lib/libtrainglass.so" ]
}
by_compiler() {
    [ -n "$cc" ] && mkdir -p "$build/lib" || return 1
    # shellcheck disable=SC2046 # a list of files without blanks
    timeout 60 "$cc" -std=gnu11 -O2 -fPIC -fexceptions -fvisibility=hidden -shared -pthread -D_GNU_SOURCE \
        -I"$root/collector" -Wl,--version-script="$root/collector/probe/probe.map" -Wl,-z,nodelete \
        -o "$build/lib/libtrainglass.so" $(find "$root/collector/probe" "$root/collector/wire" -name '*.c') -ldl
}
probe=$build/lib/libtrainglass.so
rm -f "$probe"
if ! by_cmake >"$build/probe.log" 2>&1 && ! by_compiler >>"$build/probe.log" 2>&1; then
    echo "the probe was not built: the carried one is used, if there is one" >&2
    tail -5 "$build/probe.log" >&2
    probe=${GPU_CARRY:-$build}/lib/libtrainglass.so
fi
coexist=$build/coexist
rm -f "$coexist"
if ! { [ -n "$cc" ] && timeout 60 "$cc" -std=gnu11 -O1 -o "$coexist" "$here/coexist.c" -ldl; }; then
    coexist=${GPU_CARRY:-$build}/bin/coexist
fi
program=()
[ -x "${GPU_CARRY:-}/trainglass" ] && program=(--program "$GPU_CARRY/trainglass")

left_s=$((budget_s - SECONDS))
timeout -k 5 "$left_s" "$python" -B "$here/measure.py" "${dry[@]}" --probe "$probe" --coexist "$coexist" \
    --budget $((left_s - 10)) "${program[@]}" ${1:+--out "$1"} ${GPU_ONLY:+--only "$GPU_ONLY"}
code=$?
[ "$code" != 124 ] || echo "the time is over: what was written until then stands" >&2
exit "$code"
