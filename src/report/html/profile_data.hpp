#pragma once

#include <string>

#include "profile/profile.hpp"

namespace fusecalc {

// What scripts draw the timeline of a process from: its launches in their order. Of a process with
// many launches the shortest are put together with their neighbours.
std::string timeline_json(const Profile& profile);

// A place for the timeline of each process; "" for one of which nothing is known.
std::string timeline_element(const Profile& profile, std::size_t process);

}  // namespace fusecalc
