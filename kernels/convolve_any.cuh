// Convolutions by ordinary arithmetic, of any type, with an epilogue (epilogue.cuh): those of few
// channels in a group, which are bound by memory, and what no tensor core path takes. Needs
// elements.cuh, quick.cuh, accumulators.cuh, columns.cuh, epilogue.cuh and convolve.cuh before it.
//
// Acc is the type of products and sums. Operands is a struct that the generator writes:
//   __device__ Acc x(i64 element) const;       // numbered in its own order
//   __device__ Acc weight(i64 element) const;
// Geometry is another: kShape and kStrides.
// A thread computes kFilters filters of one group for eight neighbouring pixels. kInLine: as many
// of them (1, 2, 4 or 8) lie in one line of the result, and what their windows share is loaded
// once; with kAlign > 1 from x, where all lines of the input begin at multiples of kAlign elements
// and are as long. kInLine 0: many taps, and each pixel is computed by itself. Number: what counts
// threads, u32 or i64. Launch: kThreads threads a block, a thread for each eight pixels of each
// kFilters filters of each group and image.
//
// Traffic: neighbouring threads have neighbouring pixels, so that the lines of overlapping windows
// come from the L1; filters are the same for most threads of a warp. kAcross: they have
// neighbouring groups, for channels that lie next to each other.

template <class Geometry, typename Acc, typename Element, typename Number, int kFilters,
          int kInLine, int kAlign, bool kAcross, class Operands, class Epilogue>
struct ConvolveAny {
  static constexpr int kThreads = 256;
  static constexpr int kTileRows = kFilters, kTileColumns = 8;
  static constexpr u32 kSharedBytes = 0;

  static __device__ __forceinline__ void run(const Element* x, const Operands& operands,
                                             const Epilogue& epilogue) {
    constexpr ConvolutionShape shape = Geometry::kShape;
    const int blocks = (shape.filters + kFilters - 1) / kFilters;
    const Number at = (Number)blockIdx.x * kThreads + threadIdx.x;
    const Number planes = (Number)shape.images * shape.groups * blocks;
    const Number plane = kAcross ? at % planes : at / shape.eights();
    const int column = (int)(kAcross ? at / planes : at % shape.eights()) * 8;
    const int filter = (int)(plane % blocks) * kFilters;
    const int group = (int)(plane / blocks % shape.groups);
    const int image = (int)(plane / blocks / shape.groups);
    if (image >= shape.images || column >= shape.pixels()) return;
    Acc acc[kFilters][8] = {};
    if constexpr (kInLine > 0) {
#pragma unroll
      for (int j = 0; j < 8; j += kInLine) {
        if (j == 0 || column + j < shape.pixels()) {
          add_line(shape, x, operands, image, group, filter, column, j, acc);
        }
      }
    } else {
      add_each(shape, operands, image, group, filter, column, acc);
    }
    const int valid = min(8, shape.pixels() - column);
#pragma unroll
    for (int f = 0; f < kFilters; ++f) {
      if (filter + f >= shape.filters) continue;
      const int batch = image * shape.groups + group;
      if (valid == 8) {
        epilogue(batch, (i64)(filter + f), (i64)column, acc[f], Eight{});
      } else {
        epilogue(batch, (i64)(filter + f), (i64)column, acc[f], valid);
      }
    }
  }

  static __device__ __forceinline__ Acc weight(const ConvolutionShape& shape,
                                               const Operands& operands, int group, int filter,
                                               int channel, int tap) {
    const int last = shape.filters - 1;  // of those beyond, nothing is stored
    const i64 line = (i64)group * shape.filters + (filter < last ? filter : last);
    return operands.weight((line * shape.channels + channel) * shape.all_taps() + tap);
  }

  // Each pixel by itself.
  static __device__ __forceinline__ void add_each(const ConvolutionShape& shape,
                                                  const Operands& operands, int image, int group,
                                                  int filter, int column, Acc (&acc)[kFilters][8]) {
    int start[8][3];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const WindowStart window(shape, min(column + j, shape.pixels() - 1));
#pragma unroll
      for (int i = 0; i < 3; ++i) start[j][i] = window.at[i];
    }
    const i64 first = ((i64)image * shape.groups + group) * shape.channels;
    for (int channel = 0; channel < shape.channels; ++channel) {
      for (int tap = 0; tap < shape.all_taps(); ++tap) {
        const int steps[3] = {tap / (shape.taps[1] * shape.taps[2]) * shape.dilation[0],
                              tap / shape.taps[2] % shape.taps[1] * shape.dilation[1],
                              tap % shape.taps[2] * shape.dilation[2]};
        Acc by[kFilters];
#pragma unroll
        for (int f = 0; f < kFilters; ++f) {
          by[f] = weight(shape, operands, group, filter + f, channel, tap);
        }
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          bool inside = true;
          i64 element = first + channel;
#pragma unroll
          for (int i = 0; i < 3; ++i) {
            const int place = start[j][i] + steps[i];
            inside = inside && (!shape.pads(i) || (u32)place < (u32)shape.in[i]);
            element = element * shape.in[i] + place;
          }
          const Acc value = inside ? operands.x(element) : Acc(0);
#pragma unroll
          for (int f = 0; f < kFilters; ++f) acc[f][j] += value * by[f];
        }
      }
    }
  }

  // kInLine pixels from the `first_of`-th on.
  static __device__ __forceinline__ void add_line(const ConvolutionShape& shape, const Element* x,
                                                  const Operands& operands, int image, int group,
                                                  int filter, int column, int first_of,
                                                  Acc (&acc)[kFilters][8]) {
    constexpr ConvolutionStrides strides = Geometry::kStrides;
    const WindowStart window(shape, column + first_of);
    const i64 first = ((i64)image * shape.groups + group) * shape.channels;
    x += image * strides.image + (i64)group * shape.channels * strides.channel;
    for (int channel = 0; channel < shape.channels; ++channel) {
#pragma unroll
      for (int t0 = 0; t0 < shape.taps[0]; ++t0) {
#pragma unroll
        for (int t1 = 0; t1 < shape.taps[1]; ++t1) {
          const int d0 = t0 * shape.dilation[0], d1 = t1 * shape.dilation[1];
          if (!window.inside(shape, 0, d0) || !window.inside(shape, 1, d1)) continue;
          const int p0 = window.at[0] + d0, p1 = window.at[1] + d1;
          Line line;
          if constexpr (kAlign > 1) {
            line.load(shape,
                      x + channel * strides.channel + p0 * strides.at[0] + p1 * strides.at[1],
                      window.at[2]);
          } else {
            const i64 row = ((first + channel) * shape.in[0] + p0) * shape.in[1] + p1;
            line.load(shape, operands, row * shape.in[2], window.at[2]);
          }
#pragma unroll
          for (int t2 = 0; t2 < shape.taps[2]; ++t2) {
            const int tap = (t0 * shape.taps[1] + t1) * shape.taps[2] + t2;
#pragma unroll
            for (int f = 0; f < kFilters; ++f) {
              const Acc by = weight(shape, operands, group, filter + f, channel, tap);
#pragma unroll
              for (int j = 0; j < kInLine; ++j) {
                acc[f][first_of + j] +=
                    line.at[Line::kBefore + j * Line::kStep + t2 * Line::kApart] * by;
              }
            }
          }
        }
      }
    }
  }

  // What neighbours' windows cover of a line, from kBefore on.
  struct Line {
    static constexpr int kStep = Geometry::kShape.stride[2];
    static constexpr int kApart = Geometry::kShape.dilation[2];
    static constexpr int kSpan =
        (kInLine > 0 ? kInLine - 1 : 0) * kStep + (Geometry::kShape.taps[2] - 1) * kApart + 1;
    // Packs begin at multiples of kAlign, the windows `padding` before one.
    static constexpr int kBefore = (kAlign - Geometry::kShape.padding[2] % kAlign) % kAlign;
    static constexpr int kCount = (kBefore + kSpan + kAlign - 1) / kAlign * kAlign;
    Acc at[kCount];

    __device__ __forceinline__ void load(const ConvolutionShape& shape, const Element* from,
                                         int start) {
#pragma unroll
      for (int i = 0; i < kCount; i += kAlign) {
        const int place = start - kBefore + i;
        Pack<Element, kAlign> pack{};
        if ((u32)place < (u32)shape.in[2]) {
          pack = load_input(reinterpret_cast<const Pack<Element, kAlign>*>(from + place));
        }
#pragma unroll
        for (int j = 0; j < kAlign; ++j) at[i + j] = (Acc)to_compute(pack.v[j]);
      }
    }
    __device__ __forceinline__ void load(const ConvolutionShape& shape, const Operands& operands,
                                         i64 row, int start) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const int place = start + i;
        const bool inside = !shape.pads(2) || (u32)place < (u32)shape.in[2];
        at[i] = inside ? operands.x(row + place) : Acc(0);
      }
    }
  };
};
