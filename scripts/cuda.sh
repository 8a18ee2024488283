# Sourced by the scripts that build: where CMake finds CUDA.
#
# cuda_cmake_arguments FOLDER [ARCH] prints, one a line, what to pass to cmake so that the GPU module is
# built, for another architecture than this machine's where one is named. It prints nothing if an
# installed toolkit has all parts. If it lacks some, they are
# downloaded from PyPI into FOLDER (about 100 MB, once); if that fails, it reports this on stderr,
# prints nothing, and the build continues without the module. FUSECALC_CUDA_DIR in the environment
# names a ready-made folder instead; FUSECALC_CUDA_DIR=off asks for a build without the module,
# FUSECALC_CUDA_DIR=fetch for one with it on a machine without a GPU.

_cuda_packages="nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-cupti==13.0.85 nvidia-cuda-runtime==13.0.96"

# Whether one of the places where CMake looks has NVRTC and CUPTI.
_cuda_toolkit_is_whole() {
  local nvcc root
  nvcc=$(command -v nvcc || true)
  [ -n "$nvcc" ] && nvcc=$(readlink -f "$nvcc")
  for root in "${CUDAToolkit_ROOT:-}" "${nvcc%/bin/nvcc}" /usr/local/cuda; do
    [ -n "$root" ] || continue
    if [ -e "$root/lib64/libnvrtc.so" ] && [ -e "$root/include/nvrtc.h" ] &&
      { [ -e "$root/include/cupti_range_profiler.h" ] ||
        [ -e "$root/extras/CUPTI/include/cupti_range_profiler.h" ]; }; then
      return 0
    fi
  done
  return 1
}

# Unpacks the wheels in folder $1 into $2/include and $2/lib.
_cuda_unpack() {
  local wheel library
  for wheel in "$1"/*.whl; do
    python3 -m zipfile -e "$wheel" "$1/unpacked" || return 1
  done
  mv "$1"/unpacked/nvidia/cu*/include "$1"/unpacked/nvidia/cu*/lib "$2" || return 1
  rm -f "$2"/lib/*.a "$2"/lib/*.alt.so*  # half of the size, and never used
  # Wheels hold no plain names for the linker to find.
  for library in nvrtc cupti; do
    ln -sf "$(basename "$(ls "$2/lib/lib$library.so."*)")" "$2/lib/lib$library.so" || return 1
  done
}

_cuda_fetch() {
  local folder=$1 new glibc platforms=
  [ -e "$folder/whole" ] && return 0
  command -v python3 >/dev/null || return 1
  rm -rf "$folder" "$folder".new.*
  mkdir -p "$(dirname "$folder")" && new=$(mktemp -d "$folder.new.XXXXXX") || return 1
  if [ -n "${2:-}" ]; then
    for glibc in 17 25 27 28; do platforms="$platforms --platform manylinux_2_${glibc}_$2"; done
  fi
  echo "fetching NVRTC and CUPTI from PyPI into $folder" >&2
  # shellcheck disable=SC2086  # lists of words
  if python3 -m pip download -q --no-deps --only-binary=:all: --disable-pip-version-check \
    $platforms -d "$new/wheels" $_cuda_packages >&2 && mkdir "$new/cuda" &&
    _cuda_unpack "$new/wheels" "$new/cuda" && touch "$new/cuda/whole"; then
    mv "$new/cuda" "$folder" && rm -rf "$new"
  else
    rm -rf "$new"
    return 1
  fi
}

cuda_cmake_arguments() {
  local folder=$1 arch=${2:-}
  case "${FUSECALC_CUDA_DIR:-}" in
    off) echo "-DFUSECALC_GPU=OFF"; return 0 ;;
    fetch) ;;
    ?*) echo "-DFUSECALC_CUDA_DIR=$FUSECALC_CUDA_DIR"; return 0 ;;
  esac
  [ -z "$arch" ] && _cuda_toolkit_is_whole && return 0
  if _cuda_fetch "$folder" "$arch"; then
    echo "-DFUSECALC_CUDA_DIR=$folder"
  else
    echo "NVRTC and CUPTI could not be fetched: building without the GPU module" >&2
  fi
}
