#include <fmt/format.h>

#include "core/format.hpp"
#include "report/listing.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

std::string decimal(const std::optional<double>& value) {
  return value ? shortest_decimal(*value) : "";
}

void write_row(Output& output, const Measurement& measurement, const PlanMeasurement& plan,
               std::string_view cache, std::string_view kernel, const Bytes& analytic,
               const Observed& observed) {
  std::string dram = ",,,,";
  if (observed.dram) {
    const Bytes& bytes = *observed.dram;
    dram = fmt::format("{},{},{},{},{}", bytes.read, bytes.write,
                       decimal(error_percent(bytes.read, analytic.read)),
                       decimal(error_percent(bytes.write, analytic.write)),
                       decimal(error_percent(bytes.total(), analytic.total())));
  }
  std::string time = ",,,,,";
  if (observed.time) {
    const TimeSpread& spread = *observed.time;
    time = fmt::format("{:.3f},{:.3f},{:.3f},{:.3f},{},{:.1f}", spread.median * 1e6,
                       spread.min * 1e6, spread.p10 * 1e6, spread.p90 * 1e6, spread.samples,
                       bytes_per_second(analytic, spread) / 1e9);
  }
  output.write(fmt::format("{},{},{},{},{},{},{},{}\n", csv_field(measurement.name), plan.key,
                           cache, csv_field(kernel), analytic.read, analytic.write, dram, time));
}

void write_one(const Measurement& measurement, Output& output) {
  for (const PlanMeasurement* plan : {&measurement.unfused, &measurement.fused}) {
    for (const KernelMeasurement& kernel : plan->kernels) {
      write_row(output, measurement, *plan, "isolated", kernel.name, kernel.analytic,
                kernel.observed);
    }
    write_row(output, measurement, *plan, "isolated", "", plan->analytic, plan->isolated);
    write_row(output, measurement, *plan, "pipeline", "", plan->analytic, plan->pipeline);
  }
}

}  // namespace

void write_csv(std::span<const MeasurementReport> reports, const Style& /*style*/, Output& output) {
  output.write(
      "name,plan,cache,kernel,read,write,dram_read,dram_write,error_read_pct,error_write_pct,"
      "error_total_pct,time_us_median,time_us_min,time_us_p10,time_us_p90,samples,gbps\n");
  for (const MeasurementReport& report : reports) write_one(report.measurement, output);
}

}  // namespace fusecalc
