#pragma once

#include <string>

namespace fusecalc {

// Why a kernel may move more bytes than were counted for it, if its code is the reason; empty: it
// should not.
struct KnownGaps {
  std::string more_reads{};
  std::string fewer_reads{};
  std::string more_writes{};
};

}  // namespace fusecalc
