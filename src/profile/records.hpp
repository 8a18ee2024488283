#pragma once

#include <string_view>

#include "profile/profile.hpp"

namespace fusecalc {

// Makes a process of the records that the injected library wrote of it. They may end anywhere: what
// was launched and not counted is then named as such.
ProfiledProcess read_records(std::string_view text);

// Gives the launches of `counted` the times of the same ones in `timed`, another run of the
// program: the first of a name has the time of the first, and so on. Names that were launched
// another number of times get none. Returns how many launches that leaves without a time.
std::size_t take_times(std::vector<ProfiledProcess>& counted,
                       const std::vector<ProfiledProcess>& timed);

}  // namespace fusecalc
