#include "traffic/savings.hpp"

#include "core/ratio.hpp"

namespace fusecalc {

std::int64_t Savings::bytes() const {
  return static_cast<std::int64_t>(unfused_bytes) - static_cast<std::int64_t>(fused_bytes);
}

double Savings::percent() const {
  if (unfused_bytes == 0) return 0.0;
  const std::int64_t saved = bytes();
  const double share =
      exact_ratio(static_cast<std::uint64_t>(saved < 0 ? -saved : saved), unfused_bytes);
  return round_to_cents((saved < 0 ? -share : share) * 100);
}

double Savings::speedup() const {
  return fused_bytes == 0 ? 0.0 : round_to_cents(exact_ratio(unfused_bytes, fused_bytes));
}

}  // namespace fusecalc
