#include "emulation/host_backend.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): mkdtemp

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <type_traits>

#include "backend/fake_backend.hpp"
#include "backend/gpu_fault.hpp"
#include "emulation/blocks.hpp"
#include "emulation/translation.hpp"
#include "reference/element.hpp"

namespace fusecalc::testing {
namespace {

host::Dimensions dimensions(const Extent& extent) { return {extent.x, extent.y, extent.z}; }

Device host_device(ComputeCapability capability) {
  Device device = known_devices().front();
  device.name = "the host";
  device.capability = capability;
  device.multiprocessors = 4;
  device.memory_bytes = std::uint64_t{4} << 30U;
  device.l2_bytes = 1U << 20U;
  if (capability < kFirstWithCopies) device.on_chip_bytes = std::uint64_t{64} << 10U;
  return device;
}

std::uint64_t bits_of(DType dtype) { return bytes_of(dtype, 8); }

// The codes of a float of at most 16 bits, by their values; empty for other types.
std::unordered_map<double, std::uint16_t> codes_of(DType dtype) {
  std::unordered_map<double, std::uint16_t> codes;
  if (!is_float(dtype) || bits_of(dtype) > 16) return codes;
  for (std::uint32_t code = 0; code < std::uint32_t{1} << bits_of(dtype); ++code) {
    const std::array bytes = {static_cast<std::byte>(code & 0xffU),
                              static_cast<std::byte>(code >> 8U)};
    codes.emplace(decode(dtype, bytes, 0), static_cast<std::uint16_t>(code));
  }
  return codes;
}

// The bits of an element.
std::uint64_t code_of(DType dtype, double value,
                      const std::unordered_map<double, std::uint16_t>& codes) {
  if (!is_float(dtype)) return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  if (bits_of(dtype) == 64) return std::bit_cast<std::uint64_t>(value);
  if (bits_of(dtype) == 32) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return codes.at(value);
}

void fill_memory(std::span<std::byte> memory, const RandomFill& fill) {
  if (!fill.dtype) return;
  const std::uint64_t bits = bits_of(*fill.dtype);
  const auto codes = codes_of(*fill.dtype);
  for (std::uint64_t i = 0; i < memory.size() * 8 / bits; ++i) {
    const std::uint64_t code = code_of(*fill.dtype, random_value(fill, i), codes);
    if (bits >= 8) {
      std::memcpy(&memory[i * bits / 8], &code, bits / 8);  // the host is little-endian, too
    } else {
      const auto half = static_cast<std::byte>((code & 0xfU) << (i % 2 * 4));
      memory[i / 2] = i % 2 == 0 ? half : memory[i / 2] | half;
    }
  }
}

}  // namespace

HostBackend::HostBackend(ComputeCapability capability)
    : info_{.device = host_device(capability), .uuid = "host"} {
  std::string folder = (std::filesystem::temp_directory_path() / "fusecalc.XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no temporary folder");
  folder_ = folder;
}

HostBackend::~HostBackend() { std::filesystem::remove_all(folder_); }

std::vector<std::vector<CompiledKernel>> HostBackend::compile_all(
    std::span<const KernelSource> sources, const std::function<void(std::size_t)>& done) {
  std::vector<std::vector<CompiledKernel>> kernels;
  for (const KernelSource& source : sources) {
    const std::string name = folder_ / fmt::format("kernel{}", ++modules_);
    std::ofstream(name + ".cpp") << on_host(
        source, 100 * info_.device.capability.major + 10 * info_.device.capability.minor);
    const std::string command = fmt::format("{} -shared '{}.cpp' -o '{}.so' 2> '{}.log'",
                                            FUSECALC_KERNEL_COMPILER, name, name, name);
    if (std::system(command.c_str()) != 0) {
      std::ifstream log(name + ".log");
      throw gpu_error(GpuFault::kCompile,
                      std::string(std::istreambuf_iterator<char>(log), {}).substr(0, 2000));
    }
    void* const library = dlopen((name + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    std::vector<CompiledKernel> entries;
    for (const std::string& entry : source.entries) {
      const CompiledKernel kernel{
          .id = ++last_id_, .resources = {.registers = 32}, .module = modules_};
      functions_[kernel.id] = dlsym(library, ("run_" + entry).c_str());
      entries.push_back(kernel);
    }
    kernels.push_back(std::move(entries));
    done(kernels.size());
  }
  return kernels;
}

double HostBackend::occupancy(const Launch& /*launch*/) { return 1; }

unsigned HostBackend::resident_clusters(const Launch& /*launch*/, unsigned blocks) {
  return std::max(1U, info_.device.multiprocessors / blocks);
}

Buffer HostBackend::allocate(std::uint64_t bytes) {
  constexpr std::uint64_t kAlignment = 256;
  const std::uint64_t room = (bytes / kAlignment + 1) * kAlignment;
  memory_[++last_id_] = Memory(static_cast<std::byte*>(std::aligned_alloc(kAlignment, room)));
  return {.id = last_id_, .bytes = bytes};
}

void HostBackend::release(const Buffer& buffer) noexcept { memory_.erase(buffer.id); }

std::byte* HostBackend::address(const BufferAt& at) {
  return memory_.at(at.buffer.id).get() + at.offset;
}

void HostBackend::upload(const BufferAt& to, std::span<const std::byte> from) {
  std::ranges::copy(from, address(to));
}

void HostBackend::download(std::span<std::byte> to, const BufferAt& from) {
  std::copy_n(address(from), to.size(), to.begin());
}

void HostBackend::fill(const Buffer& buffer, const RandomFill& fill) {
  fill_memory({address({.buffer = buffer}), buffer.bytes}, fill);
}

void HostBackend::set_bytes(const Buffer& buffer, std::byte value) {
  std::fill_n(address({.buffer = buffer}), buffer.bytes, value);
}

Difference HostBackend::compare(const BufferAt& a, const BufferAt& b, DType dtype,
                                std::uint64_t elements, const Allowance& allowed) {
  const std::uint64_t bytes = bytes_of(dtype, elements);
  return difference_of(dtype, elements, {address(a), bytes}, {address(b), bytes}, allowed);
}

void HostBackend::launch(const Launch& launch) {
  ++launches_;
  std::vector<std::byte*> pointers(launch.arguments.size());
  std::vector<void*> arguments(launch.arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto place = [&](const auto& argument) -> void* {
      using Type = std::remove_cvref_t<decltype(argument)>;
      if constexpr (std::is_same_v<Type, BufferAt>) {
        pointers[i] = address(argument);
        return &pointers[i];
      } else if constexpr (std::is_same_v<Type, TensorMap>) {
        throw std::runtime_error("the host has no copy engine");
      } else {
        return const_cast<Type*>(&argument);
      }
    };
    arguments[i] = std::visit(place, launch.arguments[i]);
  }
  const host::Launch given{.grid = dimensions(launch.grid),
                           .size = dimensions(launch.block),
                           .shared_bytes = launch.shared_bytes,
                           .together = launch.cooperative};
  const auto run =
      reinterpret_cast<void (*)(const host::Launch&, void**)>(functions_.at(launch.kernel.id));
  run(given, arguments.data());
}

std::vector<PreparedMatmul> HostBackend::prepare(const LibraryMatmul& /*product*/,
                                                 const MatmulOperands& /*operands*/) {
  throw gpu_error(GpuFault::kNoCublas, "the host has none");
}

void HostBackend::multiply(const PreparedMatmul& /*product*/) {}

void HostBackend::copy(const BufferAt& to, const BufferAt& from, std::uint64_t bytes) {
  std::copy_n(address(from), bytes, address(to));
}

std::vector<Bytes> HostBackend::count_all(std::span<const Work> works) {
  return std::vector<Bytes>(works.size());
}

TimedRun HostBackend::time_once(const Work& /*work*/) { return {.seconds = 1e-3}; }

}  // namespace fusecalc::testing
