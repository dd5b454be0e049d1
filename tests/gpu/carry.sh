#!/usr/bin/env bash
# Fills a folder with what a machine with a GPU may lack, from a build: carry.sh FOLDER [BUILD].
# run.sh finds it by GPU_CARRY=FOLDER. The program, for the page and the driver's meters, with
# every library that it needs and its own loader, which run on any x86_64 Linux; the probe and
# coexist, which need a libc as new as the one here.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
folder=${1:?usage: carry.sh FOLDER [BUILD]}
build=${2:-$root/build}
mkdir -p "$folder/bin" "$folder/lib" "$folder/program"
cp "$build/bin/trainglass" "$folder/program/"
cp "$build/lib/libtrainglass.so" "$folder/lib/"
"${CC:-cc}" -std=gnu11 -O1 -o "$folder/bin/coexist" "$here/coexist.c" -ldl
ldd "$build/bin/trainglass" | grep -o '/[^ ]*' | while read -r library; do cp -L "$library" "$folder/program/"; done
loader=$(cd "$folder/program" && echo ld-linux-*)
cat >"$folder/trainglass" <<END
#!/bin/sh
here=\$(cd "\$(dirname "\$0")/program" && pwd)
exec "\$here/$loader" --library-path "\$here:/usr/local/nvidia/lib64:/usr/lib/x86_64-linux-gnu" "\$here/trainglass" "\$@"
END
chmod +x "$folder/trainglass"
strip "$folder/program/trainglass" 2>/dev/null || true
du -sh "$folder"
