// Linked into what the wheel carries (standalone.cmake), so that it runs where the C library is
// older than that of the machine that built it: calls are bound to the older versions of functions,
// and what older libraries lack is here. Built on Debian 12, a program needs glibc 2.27 instead
// of 2.36.
//
// Each `__wrap_NAME` takes the place of NAME by -Wl,--wrap=NAME; the sections of those that are not
// used are left out. What was there from the start has the version OLDEST: 2.2.5 on x86-64, 2.17 on
// aarch64.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

// Calls of \name jump to its older version. The caller's return address stays what it was: dlopen
// looks for libraries on behalf of the file that it points into.
#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
asm(R"(
.macro jump_to function
  jmp *\function@GOTPCREL(%rip)
.endm

# stat(path, status) was a function of the headers that called __xstat(layout, path, status).
.macro add_layout
  mov %rsi, %rdx
  mov %rdi, %rsi
  mov $1, %edi
.endm
)");
#elif defined(__aarch64__)
#define OLDEST "GLIBC_2.17"
asm(R"(
.macro jump_to function
  adrp x16, :got:\function
  ldr x16, [x16, :got_lo12:\function]
  br x16
.endm

.macro add_layout
  mov x2, x1
  mov x1, x0
  mov w0, #0
.endm
)");
#endif

asm(R"(
.macro older name
  .symver older_\name, \name@)" OLDEST R"(
  .section .text.older.\name, "ax", @progbits
  .globl __wrap_\name
  .hidden __wrap_\name
  .type __wrap_\name, @function
__wrap_\name:
  jump_to older_\name
  .size __wrap_\name, . - __wrap_\name
.endm

.macro older_status name, function
  .symver older_\name, \function@)" OLDEST R"(
  .section .text.older.\name, "ax", @progbits
  .globl __wrap_\name
  .hidden __wrap_\name
  .type __wrap_\name, @function
__wrap_\name:
  add_layout
  jump_to older_\name
  .size __wrap_\name, . - __wrap_\name
.endm

# 2.29 and 2.35: no longer set errno in a function around the real one.
older exp
older exp2
older log
older log2
older pow
older hypot
older hypotf

# 2.32 and 2.34: moved from other libraries of the C library, which are linked for older ones.
older dlclose
older dlerror
older dlopen
older dlsym
older dladdr
older __pthread_key_create
older pthread_create
older pthread_detach
older pthread_getspecific
older pthread_join
older pthread_key_create
older pthread_key_delete
older pthread_mutex_timedlock
older pthread_mutex_trylock
older pthread_once
older pthread_rwlock_rdlock
older pthread_rwlock_unlock
older pthread_rwlock_wrlock
older pthread_setspecific
older pthread_sigmask

# 2.33
older_status stat, __xstat
older_status stat64, __xstat64
older_status lstat, __lxstat
older_status lstat64, __lxstat64
older_status fstat, __fxstat
older_status fstat64, __fxstat64

# 2.34
.symver older_start_main, __libc_start_main@)" OLDEST R"(
.text
)");

namespace {

// The same moment on the wall clock, which is what older versions wait by. They wake too early or
// too late only where somebody sets that clock meanwhile.
timespec on_wall_clock(clockid_t clock, const timespec& moment) {
  constexpr long kSecond = 1'000'000'000;
  timespec now{};
  timespec wall{};
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &wall);
  wall.tv_sec += moment.tv_sec - now.tv_sec;
  wall.tv_nsec += moment.tv_nsec - now.tv_nsec;
  if (wall.tv_nsec < 0) {
    wall.tv_nsec += kSecond;
    --wall.tv_sec;
  } else if (wall.tv_nsec >= kSecond) {
    wall.tv_nsec -= kSecond;
    ++wall.tv_sec;
  }
  return wall;
}

// The object that holds an address, as dl_iterate_phdr walks over all.
struct Search {
  std::uintptr_t address;
  dl_find_object* found;
};

int find_in(dl_phdr_info* object, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  bool inside = false;
  std::uintptr_t frames = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    const std::uintptr_t start = object->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_GNU_EH_FRAME) frames = start;
    inside |= part.p_type == PT_LOAD && search.address - start < part.p_memsz;
  }
  if (!inside || frames == 0) return 0;
  search.found->dlfo_eh_frame = reinterpret_cast<void*>(frames);  // all that exceptions need
  return 1;
}

}  // namespace

extern "C" {

using Initialiser = void(int, char**, char**);
using Finaliser = void();

int older_start_main(int (*)(int, char**, char**), int, char**, Initialiser*, Finaliser*,
                     Finaliser*, void*);

#pragma GCC visibility push(hidden)
void _init();
extern Initialiser* __init_array_start[];
extern Initialiser* __init_array_end[];

static void initialise(int count, char** arguments, char** environment) {
  _init();
  for (Initialiser** each = __init_array_start; each != __init_array_end; ++each) {
    (*each)(count, arguments, environment);
  }
}

// 2.34: newer ones run the program's initialisers by themselves, older ones what they are given.
int __wrap___libc_start_main(int (*main)(int, char**, char**), int count, char** arguments,
                             Initialiser* given, Finaliser* end, Finaliser* end_of_loader,
                             void* stack) {
  return older_start_main(main, count, arguments, given != nullptr ? given : initialise, end,
                          end_of_loader, stack);
}

// 2.32: whether locks may be left out.
char __wrap___libc_single_threaded = 0;

// 2.35: how exceptions find the frames of a function.
int __wrap__dl_find_object(void* address, dl_find_object* found) {
  Search search{reinterpret_cast<std::uintptr_t>(address), found};
  return dl_iterate_phdr(find_in, &search) == 1 ? 0 : -1;
}

// 2.36: std::random_device.
std::uint32_t __wrap_arc4random() {
  std::uint32_t number = 0;
  if (getentropy(&number, sizeof(number)) != 0) __builtin_abort();
  return number;
}

// 2.30: waiting by a clock of one's own.
int __wrap_pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                  clockid_t clock, const timespec* until) {
  const timespec wall = on_wall_clock(clock, *until);
  return pthread_cond_timedwait(condition, mutex, &wall);
}

int __wrap_pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  const timespec wall = on_wall_clock(clock, *until);
  return pthread_mutex_timedlock(mutex, &wall);
}

#pragma GCC visibility pop
}  // extern "C"
