#pragma once

#include "cuda/inject/record_file.hpp"

namespace fusecalc::cuda {

// From now on CUPTI's activity records of kernels, copies and fills become records with times: the
// GPU's own, which waiting between launches does not change. They come from a thread of CUPTI's.
void record_activity(RecordFile& records);

// Records what has ended; at the end of the program all that there is.
void flush_activity(bool everything);

}  // namespace fusecalc::cuda
