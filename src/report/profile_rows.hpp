#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "profile/profile.hpp"

namespace fusecalc {

// What the human formats show of a profile: the columns of its kernels, and lines of text.
inline constexpr std::array<std::string_view, 8> kProfileColumns = {
    "launches", "read", "write", "time", "share", "GB/s", "of peak", "bound"};

struct ProfileRow {
  std::string kernel;
  std::vector<std::string> cells;  // of kProfileColumns
};

inline constexpr std::size_t kProfileRows = 40;

// The kernels of a process with the most bytes, all others as one row, and its total.
std::vector<ProfileRow> profile_rows(const ProfiledProcess& process,
                                     std::size_t most = kProfileRows);

// "moved 44.50 GB: unfused 71.40 GB, compiler 42.10 GB, auto 37.20 GB; the fusions that would save
// most: ...". Empty without an alignment.
std::string verdict_of(const Profile& profile);

// What was not counted, and what to know of the figures: one line each.
std::vector<std::string> profile_notes(const Profile& profile, const ProfiledProcess& process);

// "12 launches, 3.2 GB read, 1.6 GB written".
std::string profile_head(const Profile& profile);

}  // namespace fusecalc
