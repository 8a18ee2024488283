#include <cmath>
#include <string>

#include "report/json_parts.hpp"
#include "report/profile_rows.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

constexpr auto kInline = JsonWriter::Layout::kInline;

double microseconds(double seconds) { return std::round(seconds * 1e9) / 1e3; }

void time_or_null(JsonWriter& json, const std::optional<double>& seconds) {
  json.key("time_us");
  if (seconds) {
    json.value(microseconds(*seconds));
  } else {
    json.null();
  }
}

void bytes_or_null(JsonWriter& json, const std::optional<Bytes>& dram) {
  if (dram) {
    json.member("dram_read", dram->read).member("dram_write", dram->write);
  } else {
    json.key("dram_read").null().key("dram_write").null();
  }
}

void write_extents(JsonWriter& json, std::string_view name,
                   const std::array<std::uint64_t, 3>& extents) {
  json.key(name).begin_array(kInline);
  for (const std::uint64_t extent : extents) json.value(extent);
  json.end();
}

void write_strings(JsonWriter& json, std::string_view name,
                   const std::vector<std::string>& strings) {
  json.key(name).begin_array(kInline);
  for (const std::string& text : strings) json.value(text);
  json.end();
}

void write_nodes(JsonWriter& json, const std::vector<GraphNode>& nodes) {
  json.key("graph_nodes").begin_array();
  for (const GraphNode& node : nodes) {
    json.begin_object(kInline);
    json.member("name", node.name).member("kind", name_of(node.kind));
    write_extents(json, "grid", node.grid);
    write_extents(json, "block", node.block);
    json.member("time_us", microseconds(node.seconds));
    json.end();
  }
  json.end();
}

void write_launch(JsonWriter& json, const ProfiledLaunch& launch) {
  json.begin_object(kInline);
  json.member("index", launch.index).member("name", launch.name);
  json.member("kind", name_of(launch.kind));
  write_extents(json, "grid", launch.grid);
  write_extents(json, "block", launch.block);
  json.member("device", launch.device).member("stream", launch.stream);
  json.member("thread", launch.thread);
  write_strings(json, "ranges", launch.ranges);
  bytes_or_null(json, launch.dram);
  time_or_null(json, launch.seconds);
  if (launch.together > 0) json.member("with_launches_before", launch.together);
  if (!launch.nodes.empty()) {
    json.member("nodes", std::uint64_t{launch.nodes.size()});
    write_nodes(json, launch.nodes);
  }
  json.end();
}

void write_kernel(JsonWriter& json, const ProfiledKernel& kernel, const ProfiledProcess& process) {
  json.begin_object(kInline);
  json.member("name", kernel.name).member("kind", name_of(kernel.kind));
  json.member("launches", kernel.launches).member("counted", kernel.counted);
  bytes_or_null(json, kernel.counted > 0 ? std::optional(kernel.dram) : std::nullopt);
  time_or_null(json, kernel.timed > 0 ? std::optional(kernel.seconds) : std::nullopt);
  json.key("gbps");
  if (const auto rate = kernel.bytes_per_second()) {
    json.value(std::round(*rate / 1e6) / 1e3);
  } else {
    json.null();
  }
  const std::string_view bound = bound_of(kernel, process.peak_bytes_per_s);
  if (!bound.empty()) json.member("bound", bound);
  json.end();
}

void write_process(JsonWriter& json, const ProfiledProcess& process) {
  json.begin_object();
  json.member("pid", process.pid).member("command", process.command);
  json.member("ended", process.ended);
  json.key("totals").begin_object(kInline);
  json.member("dram_read", process.totals.read).member("dram_write", process.totals.write);
  json.member("total", process.totals.total());
  json.key("drained");
  if (process.drained) {
    json.value(*process.drained);
  } else {
    json.null();
  }
  time_or_null(json, process.seconds > 0 ? std::optional(process.seconds) : std::nullopt);
  json.end();
  json.key("overhead").begin_object(kInline);
  json.member("counting_s", std::round(process.cost_s * 1e6) / 1e6);
  json.member("opening_s", std::round(process.opening_s * 1e6) / 1e6);
  json.member("wall_s", std::round(process.wall_s * 1e6) / 1e6);
  json.end();
  json.key("kernels").begin_array();
  for (const ProfiledKernel& kernel : process.kernels) write_kernel(json, kernel, process);
  json.end();
  if (!process.graph_kernels.empty()) {
    json.key("graph_kernels").begin_array();
    for (const ProfiledKernel& kernel : process.graph_kernels) {
      json.begin_object(kInline);
      json.member("name", kernel.name).member("kind", name_of(kernel.kind));
      json.member("nodes", kernel.launches).member("time_us", microseconds(kernel.seconds));
      json.end();
    }
    json.end();
  }
  json.key("uncounted").begin_array();
  for (const Uncounted& row : process.uncounted) {
    json.begin_object(kInline);
    json.member("what", row.what).member("launches", row.launches).member("why", row.why);
    json.end();
  }
  json.end();
  if (!process.faults.empty()) write_strings(json, "faults", process.faults);
  json.key("launches").begin_array();
  for (const ProfiledLaunch& launch : process.launches) write_launch(json, launch);
  json.end().end();
}

void write_match(JsonWriter& json, const Alignment& alignment, const Match& match,
                 const ProfiledLaunch& launch) {
  json.begin_object(kInline);
  json.member("launch", launch.index).member("kernel", launch.name);
  json.key("ops").begin_array();
  for (const OpId op : match.ops) json.value(alignment.ops[op]);
  json.end();
  json.member("status", match.ops.size() > 1 ? "merged" : "matched");
  json.member("confidence", std::round(match.confidence * 100) / 100);
  bytes_or_null(json, launch.dram);
  time_or_null(json, launch.seconds);
  json.member("unfused_bytes", match.unfused.total());
  json.member("fused_bytes", match.fused.total());
  json.end();
}

void write_alignment(JsonWriter& json, const Profile& profile) {
  const Alignment& alignment = *profile.alignment;
  const ProfiledProcess& process = profile.processes[profile.aligned_process];
  json.key("alignment").begin_object();
  json.member("op_list", alignment.document).member("verdict", verdict_of(profile));
  json.member("process", process.pid).member("runs", alignment.runs);
  json.member("moved", alignment.moved.total()).member("attributed", alignment.attributed);
  json.member("layout_bytes", alignment.layout_bytes);
  json.key("plans").begin_object(kInline);
  for (const auto& [kind, bytes] : alignment.plans) json.member(name_of(kind), bytes);
  json.end();
  json.key("matches").begin_array();
  for (const Match& match : alignment.matches) {
    write_match(json, alignment, match, process.launches[match.launch]);
  }
  json.end();
  json.key("layouts").begin_array();
  for (const LayoutLaunch& layout : alignment.layouts) {
    const ProfiledLaunch& launch = process.launches[layout.launch];
    json.begin_object(kInline);
    json.member("launch", launch.index).member("kernel", launch.name);
    json.key("ops").begin_array();
    for (const OpId op : alignment.matches[layout.match].ops) json.value(alignment.ops[op]);
    json.end();
    bytes_or_null(json, launch.dram);
    time_or_null(json, launch.seconds);
    json.end();
  }
  json.end();
  json.key("unmatched").begin_array();
  for (const std::size_t launch : alignment.unmatched) {
    json.begin_object(kInline);
    json.member("launch", process.launches[launch].index);
    json.member("kernel", process.launches[launch].name);
    bytes_or_null(json, process.launches[launch].dram);
    json.end();
  }
  json.end();
  json.key("missing").begin_array(kInline);
  for (const OpId op : alignment.missing) json.value(alignment.ops[op]);
  json.end();
  json.key("fusions").begin_array();
  for (const MissedFusion& fusion : alignment.fusions) {
    json.begin_object(kInline);
    json.key("ops").begin_array();
    for (const OpId op : fusion.ops) json.value(alignment.ops[op]);
    json.end();
    json.member("launches", fusion.launches).member("bytes", fusion.bytes);
    time_or_null(json, fusion.seconds);
    json.end();
  }
  json.end().end();
}

void write_gpu(JsonWriter& json, const PresentGpu& gpu) {
  json.key("device").begin_object();
  json.member("name", gpu.device.name).member("uuid", gpu.uuid);
  json.member("compute_capability", to_string(gpu.device.capability));
  json.member("driver_cuda", gpu.driver_cuda).member("toolkit", gpu.toolkit);
  json.member("sm_count", std::uint64_t{gpu.device.multiprocessors});
  json.member("l2_bytes", gpu.device.l2_bytes).member("memory_bytes", gpu.device.memory_bytes);
  json.member("ecc", gpu.ecc);
  json.end();
}

}  // namespace

void write_json(const Profile& profile, const Style& /*style*/, Output& output) {
  JsonWriter json(output);
  json.begin_object();
  json.member("schema", kProfileSchema).member("name", profile.name);
  write_strings(json, "program", profile.program);
  json.member("outcome", profile.outcome);
  json.member("cache", profile.isolated ? "isolated" : "pipeline");
  if (profile.gpu) {
    write_gpu(json, *profile.gpu);
  } else {
    json.key("device").null();
  }
  const Bytes totals = profile.totals();
  json.key("totals").begin_object(kInline);
  json.member("launches", profile.launches()).member("counted", profile.counted());
  json.member("dram_read", totals.read).member("dram_write", totals.write);
  json.member("total", totals.total());
  json.end();
  if (profile.alignment) write_alignment(json, profile);
  json.key("processes").begin_array();
  for (const ProfiledProcess& process : profile.processes) write_process(json, process);
  json.end().end();
  output.write("\n");
}

}  // namespace fusecalc
