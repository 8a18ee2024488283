# Builds for aarch64 on another machine (scripts/wheel --arch aarch64): with Debian's cross compiler and
# its libraries of arm64. qemu runs what is built, for the manual page and the tests.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static)
