# Shared functions of the scripts: installing packages and building. To be sourced.
# Nothing here writes to standard output, which is reserved for the program that the script runs.

root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")

# Debian packages, each with a command or a file that shows it is there.
build_packages=(
  g++=g++
  cmake=cmake
  ninja-build=ninja
  libcli11-dev=/usr/include/CLI/CLI.hpp
  nlohmann-json3-dev=/usr/include/nlohmann/json.hpp
  doctest-dev=/usr/include/doctest/doctest.h
  libfmt-dev=/usr/include/fmt/format.h
  zlib1g-dev=/usr/include/zlib.h
)
# To build for aarch64 elsewhere; apt finds arm64's after `dpkg --add-architecture arm64`.
aarch64_packages=(
  g++-aarch64-linux-gnu=aarch64-linux-gnu-g++
  qemu-user-static=qemu-aarch64-static
  libfmt-dev:arm64=/usr/lib/aarch64-linux-gnu/libfmt.so
  zlib1g-dev:arm64=/usr/lib/aarch64-linux-gnu/libz.a
)
test_packages=(
  python3-jsonschema=/usr/lib/python3/dist-packages/jsonschema/__init__.py
  python3-yaml=/usr/lib/python3/dist-packages/yaml/__init__.py
  python3-numpy=/usr/lib/python3/dist-packages/numpy/__init__.py
  groff-base=groff
  zsh=zsh
  fish=fish
)

say() { printf 'fusecalc: %s\n' "$*" >&2; }

# Runs a command, and prints its output only if it fails.
quietly() {
  local output status=0
  output=$("$@" 2>&1 </dev/null) || status=$?
  ((status == 0)) || printf '%s\n' "$output" >&2
  return "$status"
}

# Shows the lines it reads as they come: on a terminal the newest one, in place; elsewhere one in so
# many seconds, so that a log shows that work goes on.
progress_interval=30
show_newest_line() {
  local line width=80 next=$((SECONDS + progress_interval)) terminal=
  if [[ -t 2 && ${TERM:-dumb} != dumb ]]; then
    terminal=yes
    width=$(stty size <&2 2>/dev/null | cut -d' ' -f2) || width=80
    ((width > 20)) || width=80  # a terminal that does not know its size says 0
  fi
  while IFS= read -r line; do
    if [[ -n $terminal ]]; then
      printf '\r\e[K%s' "${line:0:width-1}" >&2
    elif ((SECONDS >= next)); then
      say "$line"
      next=$((SECONDS + progress_interval))
    fi
  done
  [[ -z $terminal ]] || printf '\r\e[K' >&2
}

# Runs a command that takes a while: like quietly, but shows its progress.
with_progress() (
  status=0
  output=$(mktemp)
  trap 'rm -f "$output"' EXIT
  "$@" 2>&1 </dev/null | tee "$output" | show_newest_line || status=$?  # with pipefail
  ((status == 0)) || cat "$output" >&2
  exit "$status"
)

# Sets as_root to the prefix of commands that install packages; fails if there is no way to do so.
as_root=()
become_root() {
  command -v apt-get >/dev/null || return
  ((EUID == 0)) && return
  command -v sudo >/dev/null || return
  as_root=(sudo)
  sudo -n true 2>/dev/null || { [[ -t 2 ]] && sudo -v; }
}

apt_install() {
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive
    apt-get -y -o DPkg::Lock::Timeout=300 --no-install-recommends)
  "${apt[@]}" update  # existing package lists may suffice, so a failure is ignored
  "${apt[@]}" install "$@"
}

# Whether a marker exists: a command, or a file of /usr or of a folder of CMAKE_PREFIX_PATH.
present() {
  local prefix prefixes
  [[ $1 == /* ]] || { command -v "$1" >/dev/null; return; }
  IFS=: read -ra prefixes <<<"/usr:${CMAKE_PREFIX_PATH:-}"
  for prefix in "${prefixes[@]}"; do
    [[ -n $prefix && -e $prefix${1#/usr} ]] && return
  done
  return 1
}

# install_packages PACKAGE=MARKER...: installs those whose marker is missing.
install_packages() {
  local entry missing=()
  for entry in "$@"; do
    present "${entry#*=}" || missing+=("${entry%%=*}")
  done
  ((${#missing[@]} > 0)) || return 0
  if become_root; then
    say "installing ${missing[*]}"
    # Reconfigure, because the build may now find what was missing.
    with_progress apt_install "${missing[@]}" && rm -f "$root"/build/*/build.ninja && return
  fi
  say "packages are missing; install them as root (Debian names): apt-get install ${missing[*]}"
  exit 3
}

# build PRESET TARGET...: configures where the preset is newer, then builds what is out of date.
build() (
  mkdir -p "$root/build"
  exec {lock}>"$root/build/.lock"
  flock "$lock"
  cd "$root"
  if [[ CMakePresets.json -nt build/$1/build.ninja ]]; then
    say "building build/$1, which takes a while the first time"
    # The GPU module is built on machines with a GPU, or on request.
    local cuda=() arch=
    [[ $1 != aarch64 ]] || arch=aarch64
    if [[ -e /proc/driver/nvidia/version || -n ${FUSECALC_CUDA_DIR:-} ]]; then
      source "$root/scripts/cuda.sh"
      mapfile -t cuda < <(cuda_cmake_arguments "$root/build/cuda${arch:+-$arch}" "$arch")
    fi
    with_progress cmake --preset "$1" "${cuda[@]}" || exit 3
    local missing
    missing=$(sed -n 's/^FUSECALC_MISSING_CUDA:INTERNAL=//p' "build/$1/CMakeCache.txt")
    [[ -z $missing ]] || say "the GPU module, which measure and profile need, is left out: $missing"
  fi
  with_progress cmake --build "build/$1" --target "${@:2}" || exit 3
)
