#!/usr/bin/env bash
# Everything that only a real GPU can settle, in one command of under 9 minutes, offline:
#
#     tests/gpu/run.sh [OUT_DIRECTORY]
#
# Needs an NVIDIA GPU, CMake, a C compiler and a python3 (or $TORCH_PYTHON) with a CUDA build
# of PyTorch; no CivetWeb. Writes RESULTS.md beside itself, and to OUT_DIRECTORY when one is
# given. Without a GPU it exits 77 and writes nothing. `--dry-run` does what can be done
# without one, prints, and writes nothing either.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
python=${TORCH_PYTHON:-python3}
dry=
if [ "${1:-}" = --dry-run ]; then dry=--dry-run; shift; fi
if [ -z "$dry" ] && ! nvidia-smi -L 2>/dev/null | grep -q GPU; then
    echo "no NVIDIA GPU here: nothing was measured" >&2
    exit 77
fi
build=${GPU_BUILD:-$root/build-gpu}
# The probe alone: libc and the loader.
cmake -S "$root" -B "$build" -DPROBE_ONLY=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo >"$build.log" 2>&1 \
    || { tail -20 "$build.log" >&2; exit 1; }
cmake --build "$build" --target trainglass >>"$build.log" 2>&1 \
    || { tail -20 "$build.log" >&2; exit 1; }
"${CC:-cc}" -std=gnu11 -O1 -o "$build/coexist" "$here/coexist.c" -ldl
exec "$python" -B "$here/measure.py" $dry --probe "$build/lib/libtrainglass.so" \
    --coexist "$build/coexist" ${1:+--out "$1"}
