// Convolutions of one channel in a group and one filter for it, of an input with its channels last
// and with a result of the same form, with an epilogue (epilogue.cuh): bound by memory. Needs
// elements.cuh, quick.cuh, accumulators.cuh, columns.cuh, epilogue.cuh, mma.cuh and convolve.cuh
// before it.
//
// Element: of the input, of 16 or 32 bits; groups of 16 bytes of channels begin at multiples of 16
// bytes. Operands is a struct that the generator writes:
//   __device__ float weight(i64 element) const;  // numbered in its own order
// Geometry: kShape and kStrides; planes have two axes. The epilogue is one of a matrix whose rows
// are the pixels of all images, and whose columns are channels, of which it takes kOwn at a time.
// A thread has two channels of kBeside neighbouring columns of the result, and goes down kLines
// lines of it, or up. Launch: kThreads threads for each as many of those units, kSharedBytes of
// dynamic shared memory.
//
// Traffic: neighbouring threads have neighbouring channels, then neighbouring columns, so that a
// block reads and stores whole parts of lines. Where kLines are not all, every second thread of a
// column goes up: two that share lines read them at the same time, the second from the L2. A warp
// copies its lines kStages - 1 ahead, 16 bytes a lane, to where its lanes alone read them: no
// barrier, and no register waits for memory. A lane loads and converts an element once for all
// windows of its columns, and holds its weights and the sums of all lines of the result that a line
// of the input belongs to.

template <class Geometry, typename Element, int kBeside, int kLines, int kStages, int kBlock,
          class Operands, class Epilogue>
struct ConvolveLastDown {
  static constexpr ConvolutionShape kShape = Geometry::kShape;
  static constexpr ConvolutionStrides kStrides = Geometry::kStrides;
  static constexpr int kThreads = kBlock, kOwn = 2;  // channels
  static constexpr int kTileRows = kOwn, kTileColumns = kBeside * kLines;
  static constexpr int kTaps1 = kShape.taps[1], kTaps2 = kShape.taps[2];
  static constexpr int kTaps = kTaps1 * kTaps2;
  static constexpr int kStep1 = kShape.stride[1], kStep2 = kShape.stride[2];
  static constexpr int kApart1 = kShape.dilation[1], kApart2 = kShape.dilation[2];
  // Columns of the input that the windows of a thread cover, and lines that it goes down.
  static constexpr int kSpan = (kBeside - 1) * kStep2 + (kTaps2 - 1) * kApart2 + 1;
  static constexpr int kReach = (kTaps1 - 1) * kApart1;
  static constexpr int kSteps = (kLines - 1) * kStep1 + kReach + 1;
  // Lines of the result that are summed at a time; after a period each has the place that it had.
  static constexpr int kOpen = kReach / kStep1 + 1, kPeriod = kOpen * kStep1;
  // Lanes that share 16 bytes, and copy them for each other.
  static constexpr int kLanes = 16 / (kOwn * (int)sizeof(Element));
  static constexpr int kTurns = (kSpan + kLanes - 1) / kLanes;
  // A column of a stage: lanes that copy several columns at a time reach different banks.
  static constexpr int kPitch = kThreads * kOwn * (int)sizeof(Element) + 128 / kLanes;
  static constexpr int kStageBytes = kSpan * kPitch, kSharedBytes = kStages * kStageBytes;
  static constexpr int kParts = kShape.groups / kOwn;
  static constexpr int kAcross = (kShape.out[2] + kBeside - 1) / kBeside;
  static constexpr int kDown = (kShape.out[1] + kLines - 1) / kLines;
  static constexpr int kUnits = kShape.images * kDown * kAcross * kParts;
  static_assert(kShape.channels == 1 && kShape.filters == 1 && kStrides.channel == 1, "planes");
  static_assert(kParts % kLanes == 0, "lanes that share 16 bytes have the same columns");

  // What a thread has: the first channel and column of the result, and the line where it begins.
  struct Unit {
    int channel, image, line, column;
    int way;  // from a line to the next
    bool real;

    __device__ __forceinline__ Unit() {
      const int number = (int)blockIdx.x * kThreads + (int)threadIdx.x;
      real = number < kUnits;
      const int own = real ? number : kUnits - kLanes + number % kLanes;
      channel = own % kParts * kOwn;
      column = own / kParts % kAcross * kBeside;
      const int part = own / (kParts * kAcross) % kDown;
      way = part % 2 == 0 ? 1 : -1;
      line = part * kLines + (way < 0 ? kLines - 1 : 0);
      image = own / (kParts * kAcross * kDown);
    }
    // Of the input, the first that its windows cover on its way.
    __device__ __forceinline__ int first_line() const {
      return line * kStep1 - kShape.padding[1] + (way < 0 ? kReach : 0);
    }
  };

  // Copies lines of the input, one after the other, to the stages; past the L1: to keep there what
  // other threads read, too, costs more than it saves.
  struct Copies {
    const Element* from;
    u32 to, stage = 0;
    int line, way;
    int bytes[kTurns];  // of a copy: 0 beyond an end of a line

    __device__ __forceinline__ Copies(const Element* x, const Unit& unit, u32 stages) {
      const int turn = unit.channel / kOwn % kLanes;
      const int left = unit.column * kStep2 - kShape.padding[2] + turn;
      line = unit.first_line();
      way = unit.way;
      from = x + unit.image * kStrides.image + line * kStrides.at[1] + left * kStrides.at[2] +
             (unit.channel - turn * kOwn);
      to = stages + (threadIdx.x - turn) * (u32)(kOwn * sizeof(Element)) + turn * kPitch;
#pragma unroll
      for (int i = 0; i < kTurns; ++i) {
        bytes[i] = (u32)(left + i * kLanes) < (u32)kShape.in[2] ? 16 : 0;
      }
    }
    // Copies the line of a step, if the plane has it and a window covers it.
    __device__ __forceinline__ void next(int step) {
      if (has_line(line) && (kDown == 1 || step < kSteps)) {
        const bool last = (kTurns - 1) * kLanes + (int)(threadIdx.x % kLanes) < kSpan;
#pragma unroll
        for (int i = 0; i < kTurns; ++i) {
          if (i + 1 < kTurns || last) {
            copy_async<16>(to + stage + i * kLanes * kPitch, from + i * kLanes * kStrides.at[2],
                           bytes[i]);
          }
        }
      }
      copies_commit();
      from += way * kStrides.at[1];
      line += way;
      stage = stage + kStageBytes < kSharedBytes ? stage + kStageBytes : 0;
    }
  };

  static __device__ __forceinline__ bool has_line(int line) {
    return (u32)line < (u32)kShape.in[1];
  }

  // The tap of a window, along an axis, that is so far behind its first; or -1.
  static __device__ __forceinline__ constexpr int tap_at(int distance, int taps, int apart) {
    const bool taken = distance >= 0 && distance <= (taps - 1) * apart && distance % apart == 0;
    return taken ? distance / apart : -1;
  }

  static __device__ __forceinline__ void run(const Element* x, const Operands& operands,
                                             const Epilogue& epilogue) {
    extern __shared__ __align__(16) u8 shared[];
    const Unit unit;
    Copies copies(x, unit, shared_at(shared));
#pragma unroll 1
    for (int i = 0; i + 1 < kStages; ++i) copies.next(i);
    float by[kTaps][kOwn];
#pragma unroll
    for (int t = 0; t < kTaps; ++t) {
      const int met = unit.way > 0 ? t : (kTaps1 - 1 - t / kTaps2) * kTaps2 + t % kTaps2;
#pragma unroll
      for (int c = 0; c < kOwn; ++c)
        by[t][c] = operands.weight((i64)(unit.channel + c) * kTaps + met);
    }
    const int line = unit.first_line();
    const u32 own = shared_at(shared) + threadIdx.x * (u32)(kOwn * sizeof(Element));
    float sums[kOpen][kBeside][kOwn] = {};
    u32 stage = 0;
    int step = 0;
    // A loop that surely does something: what an epilogue loads is loaded once before it.
    do {
#pragma unroll
      for (int phase = 0; phase < kPeriod; ++phase) {
        if (kSteps % kPeriod != 0 && step + phase >= kSteps) break;
        copies_wait<kStages - 2>();
        __syncwarp();  // all lanes' copies are there, and the line before was read by all
        copies.next(step + phase + kStages - 1);
        add(phase, has_line(line + unit.way * (step + phase)), own + stage, by, sums);
        stage = stage + kStageBytes < kSharedBytes ? stage + kStageBytes : 0;
        leave(phase, step + phase, epilogue, unit, sums);
      }
      step += kPeriod;
    } while (step < kSteps);
  }

  // One instruction, where the compiler would load elements of 16 bits one by one.
  static __device__ __forceinline__ Pack<Element, kOwn> load(u32 at) {
    Pack<Element, kOwn> pack;
    if constexpr (sizeof(pack) == 4) {
      u32 bits;
      asm volatile("ld.shared.u32 %0, [%1];" : "=r"(bits) : "r"(at) : "memory");
      memcpy(&pack, &bits, 4);
    } else {
      u64 bits;
      asm volatile("ld.shared.u64 %0, [%1];" : "=l"(bits) : "r"(at) : "memory");
      memcpy(&pack, &bits, 8);
    }
    return pack;
  }

  // Adds a line of the input to the sums that it belongs to, and begins those whose first it is.
  static __device__ __forceinline__ void add(int phase, bool real, u32 columns,
                                             const float (&by)[kTaps][kOwn],
                                             float (&sums)[kOpen][kBeside][kOwn]) {
    if (!real) {
#pragma unroll
      for (int s = 0; s < kOpen; ++s) {
#pragma unroll
        for (int b = 0; b < kBeside; ++b) {
          if (phase == s * kStep1) sums[s][b][0] = sums[s][b][1] = 0.0f;
        }
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kSpan; ++i) {
      float x[kOwn];
      unpack(load(columns + i * kPitch), x);
#pragma unroll
      for (int s = 0; s < kOpen; ++s) {
        const int t1 = tap_at((phase - s * kStep1 + kPeriod) % kPeriod, kTaps1, kApart1);
#pragma unroll
        for (int b = 0; b < kBeside; ++b) {
          const int t2 = tap_at(i - b * kStep2, kTaps2, kApart2);
          if (t1 < 0 || t2 < 0) continue;
#pragma unroll
          for (int c = 0; c < kOwn; ++c) {
            const float product = x[c] * by[t1 * kTaps2 + t2][c];
            sums[s][b][c] = t1 == 0 && t2 == 0 ? product : sums[s][b][c] + product;
          }
        }
      }
    }
  }

  // Runs the epilogue for the line of the result whose windows end with this one of the input.
  static __device__ __forceinline__ void leave(int phase, int step, const Epilogue& epilogue,
                                               const Unit& unit,
                                               const float (&sums)[kOpen][kBeside][kOwn]) {
#pragma unroll
    for (int s = 0; s < kOpen; ++s) {
      if ((phase - s * kStep1 + kPeriod) % kPeriod != kReach) continue;
      const int at = unit.line + unit.way * ((step - kReach) / kStep1);
      const bool here = unit.real && step >= kReach && at < kShape.out[1];
      const i64 line = (i64)unit.image * kShape.out[1] + (here ? at : 0);
#pragma unroll
      for (int b = 0; b < kBeside; ++b) {
        constexpr bool kWhole = kShape.out[2] % kBeside == 0;
        const bool inside = here && (kWhole || unit.column + b < kShape.out[2]);
        const i64 pixel = line * kShape.out[2] + unit.column + (kWhole || inside ? b : 0);
        float v[kOwn] = {sums[s][b][0], sums[s][b][1]};
        epilogue(0, pixel, (i64)unit.channel, v, AllOrNone{inside});
      }
    }
  }
};
