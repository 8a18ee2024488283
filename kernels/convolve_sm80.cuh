// Convolutions with the tensor cores of sm_80 and everything after it, as products of matrices that
// are never stored: of the filters, and of what each pixel's window covers. With an epilogue
// (epilogue.cuh) that reduces nothing. Needs elements.cuh, quick.cuh, accumulators.cuh,
// columns.cuh, epilogue.cuh, mma.cuh and convolve.cuh before it.
//
// Element: bf16, f16 or f32. Product: what they are multiplied as: the same (f32 means tf32), or
// exact_f32. Geometry: kShape and kStrides. kTogether: how many neighbouring channels share a tap;
// what remains of the channels of a group is filled up with zeros. 0: the depth is numbered as the
// filters are, where there are few channels. kLast: as of WindowsB (convolve_sm90.cuh). Blocks:
// those that share the depth of a tile: OneBlock, or BlocksOfCluster (convolve_split_sm90.cuh).
// Launch: the entry that packs the weights, pack() below, then 256 threads and kSharedBytes of
// dynamic shared memory, Blocks::kCount blocks for each tile of kTileRows filters of each group x
// kTileColumns pixels; pixels of all images are one row, each image's filled up to a multiple of
// eight.
//
// Traffic: a thread loads the pixels of one column for 16 bytes of depth, neighbouring threads
// neighbouring pixels: whole sectors along a line of the image. The tap changes before the channels
// do, so that all taps of a few channels are loaded one after the other: the first brings the lines
// to the L1, and the others find them there. Weights come from the L2.

// A tile's only block.
struct OneBlock {
  static constexpr int kCount = 1;
  static __device__ __forceinline__ int rank() { return 0; }
  static __device__ __forceinline__ void sync() {}
  static __device__ __forceinline__ float4 load(const float4* at, int) { return *at; }
};

template <typename Element, typename Product, class Geometry, int kTogether, int kRows, bool kLast,
          class Epilogue, class Blocks = OneBlock>
struct ConvolveSm80 {
  static constexpr int kTileRows = kRows, kTileColumns = 128 * 128 / kRows;
  static constexpr int kLineBytes = 64;  // of depth in a tile
  static constexpr int kSize = sizeof(Element);
  static constexpr int kTileDepth = kLineBytes / kSize;
  static constexpr int kPiece = 16 / kSize;  // elements
  static constexpr int kThreads = 256;
  static constexpr int kBlocksPerSm = sizeof(Product) > kSize ? 1 : 2;
  static constexpr int kStages = 3;  // of weights
  static constexpr int kBytesA = kTileRows * kLineBytes, kBytesB = kTileColumns * kLineBytes;
  static constexpr int kChannels = Geometry::kShape.channels;
  static constexpr int kTaps = Geometry::kShape.all_taps();
  static constexpr int kDepth = kTogether > 0
                                    ? (kChannels + kTogether - 1) / kTogether* kTogether* kTaps
                                    : kChannels* kTaps;
  static constexpr int kSteps = (kDepth + kTileDepth - 1) / kTileDepth;
  static constexpr int kPackedLine = kSteps * kTileDepth;
  // Where numbered elements lie in the input: their distance from the window's start, and along
  // each axis.
  struct Place {
    int distance;
    unsigned short steps[3];
    bool real;
  };
  static constexpr int kPlaces = kTogether > 0 ? 0 : kPackedLine;
  static constexpr int kBlocksPerCluster = Blocks::kCount;
  static constexpr int kTileBytes = kStages * kBytesA + 2 * kBytesB + kPlaces * (int)sizeof(Place);
  static constexpr int kSumBytes = Blocks::kCount > 1 ? kTileRows* kTileColumns * 4 : 0;
  static constexpr int kSharedBytes = kTileBytes > kSumBytes ? kTileBytes : kSumBytes;
  static_assert(kTogether % kPiece == 0 && kTileDepth % (kTogether > 0 ? kTogether : 1) == 0,
                "a piece of depth is of one tap");
  static_assert(Epilogue::Rows::kParts == 0 && Epilogue::Columns::kParts == 0,
                "nothing is reduced");

  // The weights in the order in which tiles take them: weights(filter of all, channel, tap).
  template <class Weights>
  static __device__ __forceinline__ void pack(const Weights& weights, Element* to) {
    constexpr ConvolutionShape shape = Geometry::kShape;
    const i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= (i64)shape.groups * shape.filters * kPackedLine) return;
    const int filter = (int)(at / kPackedLine), k = (int)(at % kPackedLine);
    int channel = k / kTaps, tap = k % kTaps;
    if constexpr (kTogether > 0) {
      channel = k / (kTaps * kTogether) * kTogether + k % kTogether;
      tap = k / kTogether % kTaps;
    }
    const bool real = k < kDepth && channel < kChannels;
    store_as(to[at],
             real ? weights.weight(((i64)filter * kChannels + channel) * kTaps + tap) : 0.0f);
  }

  // A line of 64 bytes for each filter or pixel; chunks of 16 bytes are permuted so that no two of
  // a matrix's rows share banks.
  static __device__ __forceinline__ int place(int line, int byte) {
    return line * kLineBytes + (((byte >> 4) ^ ((line >> 1) & 3)) << 4 | (byte & 15));
  }

  static __device__ __forceinline__ void fetch_weights(u8* tile, const Element* packed, int filter,
                                                       int step) {
#pragma unroll
    for (int i = 0; i < kBytesA / 16 / kThreads; ++i) {
      const int piece = threadIdx.x + i * kThreads;
      const int line = piece / 4, byte = piece % 4 * 16;
      const bool real = filter + line < Geometry::kShape.filters;
      const Element* const from =
          packed + (i64)(real ? line : 0) * kPackedLine + step * kTileDepth + byte / kSize;
      copy_async<16>(tile + place(line, byte), from, real ? 16 : 0);
    }
  }

  // What a thread loads of the input: one pixel of each step, kPieces pieces of its depth.
  static constexpr int kPieces = 4 * kTileColumns / kThreads;
  struct Column {
    const Element* from;  // where the window begins, for the group's first channel
    WindowStart window;
    bool real;

    __device__ __forceinline__ Column(const Element* x, int group, int number)
        : window(Geometry::kShape, number % (Geometry::kShape.eights() * 8)) {
      constexpr ConvolutionShape shape = Geometry::kShape;
      constexpr ConvolutionStrides strides = Geometry::kStrides;
      const int image = number / (shape.eights() * 8), pixel = number % (shape.eights() * 8);
      real = image < shape.images && pixel < shape.pixels();
      from = x + image * strides.image + (i64)group * shape.channels * strides.channel;
#pragma unroll
      for (int i = 0; i < 3; ++i) from += window.at[i] * strides.at[i];
    }
  };

  // A piece as it comes from memory. It becomes 16 bytes only when it is stored: until then the
  // loads are on their way.
  struct Piece16 {
    Element v[kPiece];
  };

  static __device__ __forceinline__ void load(Piece16& piece, const Column& column,
                                              const Place* places, int step, int chunk) {
    constexpr ConvolutionShape shape = Geometry::kShape;
    constexpr ConvolutionStrides strides = Geometry::kStrides;
    const Element none{};
    if constexpr (kTogether == 0) {
#pragma unroll
      for (int e = 0; e < kPiece; ++e) {
        const Place at = places[step * kTileDepth + chunk * kPiece + e];
        bool inside = column.real && at.real;
#pragma unroll
        for (int i = 0; i < 3; ++i) {
          inside = inside && column.window.inside(shape, i, at.steps[i]);
        }
        piece.v[e] = inside ? load_input(column.from + at.distance) : none;
      }
    } else {
      constexpr int kPerTap = kTogether / kPiece;
      const int number = kPerTap == 4 ? step : step * (4 / kPerTap) + chunk / kPerTap;
      const int channel = number / kTaps * kTogether + chunk % kPerTap * kPiece;
      // NVRTC (13.0) would replace it by number - number / kTaps * kTaps, step by step, and extend
      // parts of that to 64 bits that are negative as if they were not.
      u32 rest = (u32)(number % kTaps);
      asm("" : "+r"(rest));
      const int tap = (int)rest;
      const int steps[3] = {tap / (shape.taps[1] * shape.taps[2]) * shape.dilation[0],
                            tap / shape.taps[2] % shape.taps[1] * shape.dilation[1],
                            tap % shape.taps[2] * shape.dilation[2]};
      // The last step may reach beyond the depth.
      bool inside = column.real && step * kTileDepth + chunk * kPiece < kDepth;
      const Element* from = column.from + channel * strides.channel;
#pragma unroll
      for (int i = 0; i < 3; ++i) {
        inside = inside && column.window.inside(shape, i, steps[i]);
        from += steps[i] * strides.at[i];
      }
#pragma unroll
      for (int e = 0; e < kPiece; ++e) {
        const bool real = kChannels % kTogether == 0 || channel + e < kChannels;
        piece.v[e] = inside && real ? load_input(from + e * strides.channel) : none;
      }
    }
  }

  static __device__ __forceinline__ void write_places(Place* places) {
    constexpr ConvolutionShape shape = Geometry::kShape;
    constexpr ConvolutionStrides strides = Geometry::kStrides;
    for (int k = threadIdx.x; k < kPlaces; k += kThreads) {
      const int tap = k % kTaps;
      const int steps[3] = {tap / (shape.taps[1] * shape.taps[2]) * shape.dilation[0],
                            tap / shape.taps[2] % shape.taps[1] * shape.dilation[1],
                            tap % shape.taps[2] * shape.dilation[2]};
      Place at;
      at.distance = (int)(k / kTaps * strides.channel);
      for (int i = 0; i < 3; ++i) {
        at.distance += (int)(steps[i] * strides.at[i]);
        at.steps[i] = (unsigned short)steps[i];
      }
      at.real = k < kDepth;
      places[k] = at;
    }
  }

  static __device__ __forceinline__ void run(const Element* packed, const Element* x,
                                             const Epilogue& epilogue) {
    extern __shared__ __align__(128) u8 shared[];
    u8* const tiles_b = shared + kStages * kBytesA;
    Place* const places = reinterpret_cast<Place*>(tiles_b + 2 * kBytesB);
    constexpr ConvolutionShape shape = Geometry::kShape;
    // The tiles of all filters of a few pixels follow each other: their windows stay in the L2.
    constexpr int kUnits = (shape.filters + kTileRows - 1) / kTileRows;
    const int rank = Blocks::rank(), tile_number = (int)blockIdx.x / Blocks::kCount;
    const int begin = kSteps * rank / Blocks::kCount, end = kSteps * (rank + 1) / Blocks::kCount;
    const int filter = tile_number % kUnits * kTileRows;
    const int group = tile_number / kUnits % shape.groups;
    const int first = tile_number / kUnits / shape.groups * kTileColumns;
    packed += ((i64)group * shape.filters + filter) * kPackedLine;
    const Column column(x, group, first + (int)threadIdx.x % kTileColumns);
    const int chunk = (int)threadIdx.x / kTileColumns * kPieces;
    if constexpr (kPlaces > 0) {
      write_places(places);
      __syncthreads();
    }

    const auto fetch_step = [&](int step) {
      if (step < end) {
        fetch_weights(shared + step % kStages * kBytesA, packed, filter, step);
      }
      copies_commit();
    };
    constexpr int kAtOnce = kPieces / 2;
    Piece16 pieces[kAtOnce];
    const auto load_half = [&](int step, int half) {
      if (step >= end) return;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        load(pieces[i], column, places, step, chunk + half * kAtOnce + i);
      }
    };
    const auto store_half = [&](int step, int half) {
      if (step >= end) return;
      u8* const tile = tiles_b + step % 2 * kBytesB;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        Pack<Element, kPiece> pack;
#pragma unroll
        for (int e = 0; e < kPiece; ++e) pack.v[e] = pieces[i].v[e];
        *reinterpret_cast<Pack<Element, kPiece>*>(
            tile + place((int)threadIdx.x % kTileColumns, (chunk + half * kAtOnce + i) * 16)) =
            pack;
      }
    };

    for (int step = begin; step < begin + kStages - 1; ++step) fetch_step(step);
    load_half(begin, 0);
    store_half(begin, 0);
    load_half(begin, 1);
    store_half(begin, 1);
    constexpr int kWarpsAcross = kTileColumns / 32;
    const int warp = threadIdx.x / 32;
    const int warp_m = warp / kWarpsAcross * 64, warp_n = warp % kWarpsAcross * 32;
    float acc[4][4][4] = {};
    for (int step = begin; step < end; ++step) {
      copies_wait<kStages - 2>();
      __syncthreads();
      fetch_step(step + kStages - 1);
      const u8* const a = shared + step % kStages * kBytesA;
      const u8* const b = tiles_b + step % 2 * kBytesB;
#pragma unroll
      for (int slice = 0; slice < 2; ++slice) {
        load_half(step + 1, slice);
        u32 fb[2][4];
        const int lane = threadIdx.x % 32, q = lane / 8;
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int line = warp_n + j * 16 + lane % 8 + (q >> 1) * 8;
          load_matrices(b + place(line, slice * 32 + (q & 1) * 16), fb[j]);
        }
        multiply_slice(a, warp_m, slice, fb, acc);
        store_half(step + 1, slice);
      }
    }
    copies_wait<0>();
    if constexpr (Blocks::kCount > 1) {
      __syncthreads();
      finish_shared(group, filter + warp_m, first + warp_n, acc, rank, shared, epilogue);
    } else {
      finish_all(group, filter + warp_m, first + warp_n, acc, epilogue);
    }
  }

  // Blocks that share a tile have some of the parts that a warp finishes, of the sums of all.
  static __device__ __forceinline__ void finish_shared(int group, int filter, int number,
                                                       float (&acc)[4][4][4], int rank, u8* shared,
                                                       const Epilogue& epilogue) {
    constexpr int kOwn = 8 / Blocks::kCount;  // of eight parts
    float4* const sums = reinterpret_cast<float4*>(shared) + threadIdx.x;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const float(&four)[4] = acc[i / 4][i % 4];
      sums[i * kThreads] = {four[0], four[1], four[2], four[3]};
    }
    Blocks::sync();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int begin = max(0, rank * kOwn - 2 * i), end = min(2, (rank + 1) * kOwn - 2 * i);
      if (begin >= end) continue;
      add_blocks(sums + i * 4 * kThreads, acc[i]);
      finish(group, filter + i * 16, number, acc[i], begin, end, epilogue);
    }
    __syncwarp();
    Blocks::sync();  // none may exit while another reads its sums
  }

  // In the order of the depth: results do not change between runs.
  static __device__ __forceinline__ void add_blocks(const float4* sums, float (&acc)[4][4]) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) acc[j][e] = 0;
#pragma unroll
      for (int block = 0; block < Blocks::kCount; ++block) {
        const float4 more = Blocks::load(sums + j * kThreads, block);
        acc[j][0] += more.x, acc[j][1] += more.y, acc[j][2] += more.z, acc[j][3] += more.w;
      }
    }
  }

  // fb[j]: 32 bytes of depth of 16 pixels.
  static __device__ __forceinline__ void multiply_slice(const u8* a, int m, int slice,
                                                        const u32 (&fb)[2][4],
                                                        float (&acc)[4][4][4]) {
    const int lane = threadIdx.x % 32, q = lane / 8;
    u32 fa[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      load_matrices(a + place(m + i * 16 + lane % 8 + (q & 1) * 8, slice * 32 + (q >> 1) * 16),
                    fa[i]);
    }
    multiply_all<4>([&](int i, int j) -> float(&)[4] { return acc[i][j]; }, fa,
                    [&](int, int j, int word) { return fb[j / 2][j % 2 * 2 + word]; }, Product{});
  }

  // A warp has 64 filters of 32 pixels, and finishes 16 at a time, in two parts.
  static __device__ __forceinline__ void finish_all(int group, int filter, int number,
                                                    const float (&acc)[4][4][4],
                                                    const Epilogue& epilogue) {
#pragma unroll
    for (int i = 0; i < 4; ++i) finish(group, filter + i * 16, number, acc[i], 0, 2, epilogue);
  }
  static __device__ __forceinline__ void finish(int group, int filter, int number,
                                                const float (&acc)[4][4], int begin, int end,
                                                const Epilogue& epilogue) {
    if constexpr (kLast) return finish_last(group, filter, number, acc, begin, end, epilogue);
    constexpr ConvolutionShape shape = Geometry::kShape;
    const int lane = threadIdx.x % 32;
    const int eight = number / 8 + lane % 4;
    const int image = eight / shape.eights(), column = eight % shape.eights() * 8;
    const int valid = image < shape.images ? min(8, shape.pixels() - column) : 0;
    const int batch = image * shape.groups + group;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (Blocks::kCount > 1 && (half < begin || half >= end)) continue;
      float x[4][2], v[8];
#pragma unroll
      for (int j = 0; j < 8; ++j) x[j / 2][j % 2] = acc[j / 2][half * 2 + j % 2];
      columns_of_quad(x, v);
      const int row = filter + lane / 4 + 8 * half;
      if (row >= shape.filters) continue;
      if (valid == 8) {
        epilogue(batch, (i64)row, (i64)column, v, Eight{});
      } else if (valid > 0) {
        epilogue(batch, (i64)row, (i64)column, v, valid);
      }
    }
  }

  // Eight filters of two pixels a lane.
  static __device__ __forceinline__ void finish_last(int group, int filter, int number,
                                                     const float (&acc)[4][4], int begin, int end,
                                                     const Epilogue& epilogue) {
    constexpr ConvolutionShape shape = Geometry::kShape;
    const int lane = threadIdx.x % 32;
    const int eight = number / 8 + lane / 4 % 4;
    const int image = eight / shape.eights(), first = eight % shape.eights() * 8 + lane % 4 * 2;
    float x[16];
#pragma unroll
    for (int j = 0; j < 16; ++j) x[j] = acc[j % 8 / 2][j / 8 * 2 + j % 2];
    rows_of_lanes(x);
    const int row = filter + lane / 16 * 8;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      if (Blocks::kCount > 1 && (e < begin || e >= end)) continue;
      const bool inside = image < shape.images && first + e < shape.pixels() && row < shape.filters;
      const i64 pixel = inside ? (i64)image * shape.pixels() + first + e : 0;
      float v[8];
#pragma unroll
      for (int j = 0; j < 8; ++j) v[j] = x[2 * j + e];
      epilogue(0, pixel, (i64)group * shape.filters + min(row, shape.filters - 8), v,
               AllOrNone{inside});
    }
  }
};
