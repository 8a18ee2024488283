#include "cuda/compiler.hpp"

#include <fmt/format.h>
#include <nvrtc.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <future>
#include <memory>
#include <string_view>
#include <utility>

#include "backend/gpu_fault.hpp"
#include "core/error.hpp"

namespace fusecalc::cuda {
namespace {

void check(nvrtcResult result, const char* what) {
  if (result == NVRTC_SUCCESS) return;
  throw gpu_error(GpuFault::kCompile, fmt::format("{}: {}", what, nvrtcGetErrorString(result)));
}

class Program {
 public:
  explicit Program(const std::string& text) {
    check(nvrtcCreateProgram(&program_, text.c_str(), "kernel.cu", 0, nullptr, nullptr),
          "nvrtcCreateProgram");
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() { nvrtcDestroyProgram(&program_); }

  std::string log() const {
    return get("nvrtcGetProgramLog", nvrtcGetProgramLogSize, nvrtcGetProgramLog);
  }
  std::string image(bool machine_code) const {
    return machine_code ? get("nvrtcGetCUBIN", nvrtcGetCUBINSize, nvrtcGetCUBIN)
                        : get("nvrtcGetPTX", nvrtcGetPTXSize, nvrtcGetPTX);
  }
  void compile(const std::vector<const char*>& options) {
    const nvrtcResult result =
        nvrtcCompileProgram(program_, static_cast<int>(options.size()), options.data());
    if (result == NVRTC_ERROR_COMPILATION) throw gpu_error(GpuFault::kCompile, log());
    check(result, "nvrtcCompileProgram");
  }

 private:
  std::string get(const char* what, nvrtcResult (*size_of)(nvrtcProgram, std::size_t*),
                  nvrtcResult (*copy)(nvrtcProgram, char*)) const {
    std::size_t size = 0;
    check(size_of(program_, &size), what);
    std::string text(size, '\0');
    check(copy(program_, text.data()), what);
    return text;
  }

  nvrtcProgram program_ = nullptr;
};

constexpr std::size_t kDigits = 16;

// Reads 16 hexadecimal digits at an offset of a text.
std::optional<std::uint64_t> number_at(const std::string& text, std::size_t place) {
  if (text.size() < place + kDigits) return std::nullopt;
  std::uint64_t number = 0;
  const char* const end = text.data() + place + kDigits;
  const auto parsed = std::from_chars(text.data() + place, end, number, 16);
  if (parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
  return number;
}

// A cache entry: compile time in nanoseconds, length of the log, log, image.
std::string pack(const CompiledImage& compiled) {
  return fmt::format("{:016x}{:016x}", static_cast<std::uint64_t>(compiled.seconds * 1e9),
                     compiled.log.size()) +
         compiled.log + compiled.image;
}

std::optional<CompiledImage> unpack(const std::string& entry) {
  const std::optional<std::uint64_t> nanoseconds = number_at(entry, 0);
  const std::optional<std::uint64_t> length = number_at(entry, kDigits);
  if (!nanoseconds || !length || entry.size() - 2 * kDigits < *length) return std::nullopt;
  return CompiledImage{.image = entry.substr(2 * kDigits + *length),
                       .log = entry.substr(2 * kDigits, *length),
                       .seconds = static_cast<double>(*nanoseconds) * 1e-9,
                       .cached = true};
}

// The lines of ptxas's report about an entry.
std::string_view lines_about(std::string_view log, const std::string& entry) {
  const std::size_t begin = log.find(fmt::format("'{}'", entry));
  if (begin == std::string_view::npos) return {};
  constexpr std::string_view kNext = "Compiling entry function";
  return log.substr(begin, log.find(kNext, begin) - begin);
}

// The number right before `unit`.
std::optional<std::uint64_t> number_before(std::string_view text, std::string_view unit) {
  const std::size_t at = text.find(unit);
  if (at == std::string_view::npos) return std::nullopt;
  std::size_t begin = at;
  while (begin > 0 && text[begin - 1] >= '0' && text[begin - 1] <= '9') --begin;
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(text.data() + begin, text.data() + at, value);
  if (parsed.ec != std::errc{}) return std::nullopt;
  return value;
}

// Compilations at a time: as many as there are processors that this process may use (more would
// only delay the end after a Ctrl-C), and not so many that they need all of a machine's memory.
std::size_t compilations() {
  constexpr int kMost = 16;
  cpu_set_t usable;
  if (::sched_getaffinity(0, sizeof usable, &usable) != 0) return 1;
  return static_cast<std::size_t>(std::clamp(CPU_COUNT(&usable), 1, kMost));
}

// Major and minor.
std::pair<int, int> version() {
  std::pair<int, int> version;
  check(nvrtcVersion(&version.first, &version.second), "nvrtcVersion");
  return version;
}

}  // namespace

std::string compiler_version() {
  const auto [major, minor] = version();
  return fmt::format("{}.{}", major, minor);
}

std::string architecture_for(ComputeCapability capability) {
  const auto wanted = static_cast<int>(10 * capability.major + capability.minor);  // 90 for 9.0
  int count = 0;
  check(nvrtcGetNumSupportedArchs(&count), "nvrtcGetNumSupportedArchs");
  std::vector<int> known(static_cast<std::size_t>(count));
  check(nvrtcGetSupportedArchs(known.data()), "nvrtcGetSupportedArchs");
  if (std::ranges::find(known, wanted) != known.end()) return fmt::format("sm_{}", wanted);
  std::erase_if(known, [&](int architecture) { return architecture > wanted; });
  if (known.empty()) {
    throw gpu_error(
        GpuFault::kDeviceUnknown,
        fmt::format("compute capability {}, NVRTC {}", to_string(capability), compiler_version()));
  }
  return fmt::format("compute_{}", std::ranges::max(known));
}

CompiledImage compile_image(const KernelSource& source, const std::string& architecture_name,
                            const KernelCache& cache) {
  const std::string architecture = architecture_name + (source.architecture_bound ? "a" : "");
  std::vector<std::string> options = {"--gpu-architecture=" + architecture, "--std=c++17",
                                      "--ptxas-options=-v"};
  // NVRTC 12.9 and later has its own cache, whose images come without ptxas's report.
  if (version() >= std::pair(12, 9)) options.emplace_back("--no-cache");
  options.insert(options.end(), source.options.begin(), source.options.end());
  const std::string key =
      fmt::format("nvrtc {}\n{}\n{}", compiler_version(), fmt::join(options, "\n"), source.text);
  if (const std::optional<std::string> entry = cache.load(key)) {
    if (std::optional<CompiledImage> compiled = unpack(*entry)) return *std::move(compiled);
  }
  std::vector<const char*> arguments;
  for (const std::string& option : options) arguments.push_back(option.c_str());
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  Program program(source.text);
  program.compile(arguments);
  CompiledImage compiled{.image = program.image(architecture.starts_with("sm_")),
                         .log = program.log(),
                         .seconds = std::chrono::duration<double>(Clock::now() - begin).count()};
  cache.store(key, pack(compiled));
  return compiled;
}

std::vector<CompiledImage> compile_images(std::span<const KernelSource> sources,
                                          const std::string& architecture, const KernelCache& cache,
                                          const std::function<void(std::size_t)>& tell) {
  constexpr std::chrono::milliseconds kBetweenTellings(20);
  std::vector<CompiledImage> images(sources.size());
  std::atomic<std::size_t> next = 0;
  std::atomic<std::size_t> done = 0;
  const auto compile_some = [&] {
    for (std::size_t i = next++; i < sources.size(); i = next++) {
      try {
        images[i] = compile_image(sources[i], architecture, cache);
      } catch (const Error&) {
        next = sources.size();
        throw;
      }
      ++done;
    }
  };
  std::vector<std::future<void>> threads;
  // Destroyed before the threads, which are joined: after an exception no thread starts another
  // job.
  struct Stop {
    std::atomic<std::size_t>& next;
    std::size_t end;
    ~Stop() { next = end; }
  } const stop{next, sources.size()};
  for (std::size_t i = 0; i < std::min(compilations(), sources.size()); ++i) {
    threads.push_back(std::async(std::launch::async, compile_some));
  }
  for (std::future<void>& thread : threads) {
    while (thread.wait_for(kBetweenTellings) != std::future_status::ready) tell(done);
    thread.get();
  }
  return images;
}

std::optional<EntryReport> report_of(const std::string& log, const std::string& entry) {
  const std::string_view lines = lines_about(log, entry);
  const auto registers = number_before(lines, " registers");
  const auto stored = number_before(lines, " bytes spill stores");
  const auto loaded = number_before(lines, " bytes spill loads");
  const auto stack = number_before(lines, " bytes stack frame");
  if (!registers || !stored || !loaded || !stack) return std::nullopt;
  return EntryReport{.registers = static_cast<unsigned>(*registers),
                     .spill_bytes = *stored + *loaded,
                     .stack_bytes = *stack,
                     .shared_bytes = number_before(lines, " bytes smem").value_or(0)};
}

}  // namespace fusecalc::cuda
