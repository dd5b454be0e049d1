# Sourced by run.sh and test.sh: which Debian or Ubuntu packages are needed, and how to get
# those that are missing. Nothing is installed without being named first.

BUILD_PACKAGES="gcc libc6-dev cmake ninja-build python3
  libcivetweb-dev libcjson-dev libinih-dev libsqlite3-dev libxxhash-dev libisal-dev zlib1g-dev"
TEST_PACKAGES="libcmocka-dev clang clang-tidy libclang-rt-dev llvm gcc-aarch64-linux-gnu libc6-dev-arm64-cross
  binutils file procps util-linux curl python3-venv python3-dev prometheus"

say() { printf '%s: %s\n' "${0##*/}" "$*"; }
die() { say "$*" >&2; exit 1; }

is_installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }
is_known() { apt-cache show "$1" >/dev/null 2>&1; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else die "needs root for: $*   (run that once as root, or install sudo)"
  fi
}

# apt-get without its small talk; what it said is shown when it fails.
apt() {
  local log; log=$(mktemp)
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=600 "$@" >"$log" 2>&1 || { cat "$log" >&2; rm -f "$log"; return 1; }
  rm -f "$log"
}

# install_missing PACKAGE...: those that the distribution does not know are left out; what
# needs them says so.
install_missing() {
  local missing=() package
  for package; do is_installed "$package" || missing+=("$package"); done
  [ ${#missing[@]} = 0 ] && return
  command -v apt-get >/dev/null || die "install these by hand, this is neither Debian nor Ubuntu: ${missing[*]}"
  compgen -G '/var/lib/apt/lists/*Packages*' >/dev/null || { say "apt-get update"; apt update; }
  local known=()
  for package in "${missing[@]}"; do
    if is_known "$package"; then known+=("$package"); else say "no package $package here"; fi
  done
  [ ${#known[@]} = 0 ] && return
  say "installing ${known[*]}"
  apt install --no-install-recommends -y "${known[@]}" || {
    say "trying again with new package lists"
    apt update && apt install --no-install-recommends -y "${known[@]}"
  } || die "could not install ${known[*]}"
}

# has_npm FOLDER: npm is here, or in FOLDER.
has_npm() { command -v npm >/dev/null || [ -x "$1/bin/npm" ]; }

# provide_npm FOLDER: where there is none, PyPI's in FOLDER/bin: one package, where the
# distribution's is some hundred. That one comes where PyPI has none or cannot be reached.
provide_npm() {
  has_npm "$1" && return
  local log; log=$(mktemp)
  install_missing python3-venv
  say "installing npm from PyPI into $1"
  if { python3 -m venv --clear "$1" &&
    "$1/bin/python" -m pip install --disable-pip-version-check --only-binary :all: \
      --require-hashes -r "${BASH_SOURCE[0]%/*}/npm.txt"; } >"$log" 2>&1; then
    rm -f "$log"; return
  fi
  tail -2 "$log" >&2
  rm -rf "$log" "$1"
  install_missing nodejs npm ca-certificates
}
