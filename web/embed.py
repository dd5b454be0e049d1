"""Writes the C file that holds the page: embed.py OUTPUT.c FOLDER PATH=FILE...

The bytes enter through .incbin, because a compiler takes seconds and hundreds of megabytes for the
same bytes as an array. FOLDER receives the gzipped copies. Same files in, same bytes out.
"""

import gzip
import hashlib
import pathlib
import sys

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".md": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}
PAGE = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; worker-src 'self'; base-uri 'none'; form-action 'none'"
)
# speedscope styles its elements inline and brings a font: allowed on its own path alone.
SPEEDSCOPE = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data: blob:; font-src 'self'; base-uri 'none'; form-action 'none'"
)

HEAD = """/* Generated from the files of web/ and its packages. */
#include "assets.h"

#define EMBED(symbol, file) \\
    __asm__(".pushsection .rodata\\n.balign 16\\n" symbol ":\\n.incbin \\"" file "\\"\\n.byte 0\\n" \\
            ".popsection\\n")
"""


def quoted(text):
    return '"' + str(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def embed(lines, symbol, file):
    lines.append(f'EMBED("{symbol}", {quoted(file)});')
    lines.append(f"extern const unsigned char {symbol}[] __attribute__((visibility(\"hidden\")));")


def main(output, folder, *pairs):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lines, rows = [HEAD], []
    for number, (path, file) in enumerate(sorted(pair.split("=", 1) for pair in pairs)):
        data = pathlib.Path(file).read_bytes()
        packed = gzip.compress(data, 9, mtime=0)
        embed(lines, f"web_bytes_{number}", file)
        packed_symbol, packed_size = "NULL", 0
        if len(packed) < len(data):
            (folder / f"{number}.gz").write_bytes(packed)
            packed_symbol, packed_size = f"web_gzip_{number}", len(packed)
            embed(lines, packed_symbol, folder / f"{number}.gz")
        policy = SPEEDSCOPE if path.startswith("speedscope/") else PAGE
        etag = '"' + hashlib.sha256(data).hexdigest()[:20] + '"'
        rows.append(
            f"    {{{quoted(path)}, {quoted(TYPES[pathlib.Path(path).suffix])}, {quoted(policy)}, "
            f"{quoted(etag)}, web_bytes_{number}, {len(data)}, {packed_symbol}, {packed_size}}},"
        )
    lines += ["", "const struct web_asset web_assets[] = {", *rows, "};"]
    lines += ["const size_t web_asset_count = sizeof web_assets / sizeof web_assets[0];", ""]
    pathlib.Path(output).write_text("\n".join(lines))


main(*sys.argv[1:])
