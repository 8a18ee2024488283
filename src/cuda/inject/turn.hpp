#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

namespace fusecalc::cuda {

// The counters of a GPU serve one process at a time: the processes of a program take turns, by
// locks on a file of the folder of records. A process that ends gives its turn up, however it ends,
// and a forked child has none.
class Turn {
 public:
  // `folder` and the GPU's UUID name the file.
  Turn(const std::string& folder, const std::string& uuid);
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn();

  // Whether it is this process's turn now. Waits for it, but not where the same process has kept it
  // for as long as `limit`.
  bool take(std::chrono::milliseconds limit);
  // The share begins now: opening the counters may have taken longer than a share.
  void start_share() { since_ = std::chrono::steady_clock::now(); }
  // Whether another process waits, and this one has had its share.
  bool is_over(std::chrono::milliseconds share) const;
  // Gives it up, and waits until another process may have taken it.
  void give_up();

 private:
  bool lock(short type, off_t place) const;
  pid_t holder(off_t place) const;

  std::chrono::steady_clock::time_point since_{};
  int file_;
  bool held_ = false;
};

}  // namespace fusecalc::cuda
