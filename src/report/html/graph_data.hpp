// What the scripts of an HTML report draw.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "report/formats.hpp"

namespace fusecalc {

// What all graphs of a page may take; style, scripts and tables fit into the rest of 2 MB.
inline constexpr std::size_t kMostGraphBytes = 1'700'000;

// The graphs with their plans, kernels and tensors as compact JSON. Names are printable, so that
// scripts show them as they are. Each of "reports":
//   name, headline (a plan's name), device, copy (bytes/s of the GPU's own copy), rates (bytes/s
//   and
//              flop/s that the device's good kernels reach)
//   left_out   what did not fit into a page, if anything did not
//   patterns   of texts: a name, a scope, a kind or a reason is a text or, as TextPatterns has it,
//              the place of its pattern and its numbers
//   scopes, kinds, reasons: texts that the others refer to by place
//   tensors    [name or the place of the op with that name, bytes, 1 input | 2 output, type]
//   ops        [name, kind, scope]; a name that starts with its scope leaves that out and has a
//              fourth member
//   plans      name, read, write, flops, time (predicted us), kernels, repeats ([first, period,
//              count]), predicted, measured
//   kernels    [ops, reads, writes, flops, bytes of the limit, boundaries, why it has no code];
//              a read or write is a tensor that moves whole and once, or [tensor, bytes, passes];
//              a boundary is [kernel, tensor, reason]; trailing empty members are left out
//   predicted  [DRAM bytes, us, least us, most us, bound (a kind)] of each kernel
//   measured   [DRAM read, DRAM written, us, schedule] of each kernel, null where unknown
// In as much detail as fits into `most` bytes, of which each graph has an equal share.
std::string graph_data(std::span<const Analysis> analyses, std::size_t most = kMostGraphBytes);
std::string graph_data(std::span<const MeasurementReport> reports);

}  // namespace fusecalc
