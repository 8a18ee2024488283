// C[m][n] = sum over k of A B where k is short and memory is the limit, for sm_80 and later, with
// an epilogue (epilogue.cuh) in place of a plain store. Needs elements.cuh, quick.cuh,
// accumulators.cuh, columns.cuh, epilogue.cuh, tile_walk.cuh and mma.cuh before it.
//
// An entry is
//   extern "C" __global__ void __launch_bounds__(ContractShallow<...>::kThreads, resident)
//       name(const Element* a, const Element* b, ...) {
//     ContractShallow<Element, kSteps, kStrips, kGroups, kDown, kAcross, kWhole, Epilogue>::run(
//         a, b, shape, strides, Epilogue{...});
//   }
// or the same of ContractShallowAcross<Element, kSteps, kPixels, kRowTiles, Epilogue>. Element:
// bf16 or f16. Nothing is reduced. Launch: kThreads threads, kSharedBytes of dynamic shared memory,
// any multiple of ceil(n / kTileColumns) blocks (of ceil(m / kTileRows) for the second), each of
// which keeps its part of the smaller operand and goes through all of the other, with the other
// blocks of that part.
//
// Traffic: of the large operand a warp holds all of k in registers, in the order in which it loads
// them: k is summed in any order, so that a lane takes 16 bytes and passes them as whichever part
// of k the instruction expects from it. The small one stays in registers, or in shared memory as
// the fragments that lanes read. No warp waits for another: loads, products and stores of different
// warps overlap as they do where each element is computed by itself.

// What a warp has of C: kStrips times 16 of its rows, one after the other, and 32 of its columns.
template <int kStrips, class Epilogue>
struct WarpStrips {
  typedef AheadIn<Epilogue> Ahead;
  typedef typename Ahead::Type Operands[kStrips][2];  // of a lane's two rows of a strip
  typedef float Sums[kStrips][4][4];  // a lane's, of eight neighbouring columns of each row

  static __device__ __forceinline__ void load_operands(const Epilogue& epilogue, const Piece& first,
                                                       Operands& operands) {
    if constexpr (Ahead::kHere) {
#pragma unroll
      for (int strip = 0; strip < kStrips; ++strip) {
        Piece piece = first;
        piece.row += strip * 16;
        load_group_ahead(epilogue, piece, 0, operands[strip]);
      }
    }
  }

  // 32 of k: a lane has eight of each of its rows, and of the column that is the j-th of its own.
  template <typename Element>
  static __device__ __forceinline__ void add(const uint4 (&rows)[kStrips][2], int j,
                                             const uint4& column, Sums& sums) {
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) {
      const uint4 upper = rows[strip][0], lower = rows[strip][1];
      const u32 early[4] = {upper.x, lower.x, upper.y, lower.y};
      const u32 late[4] = {upper.z, lower.z, upper.w, lower.w};
      multiply(sums[strip][j], early, column.x, column.y, Element{});
      multiply(sums[strip][j], late, column.z, column.w, Element{});
    }
  }

  template <class Own>
  static __device__ __forceinline__ void finish(const Own& epilogue, const Piece& first,
                                                const Sums& sums, const Operands& operands) {
    if (first.row + 16 * kStrips <= first.rows && first.column + 32 <= first.columns) {
      finish_valid<typename Ahead::Whole>(epilogue, first, sums, operands);
    } else if (first.columns % 8 == 0) {
      finish_valid<AllOrNone>(epilogue, first, sums, operands);
    } else {
      finish_valid<int>(epilogue, first, sums, operands);
    }
  }

  template <class Valid, class Own>
  static __device__ __forceinline__ void finish_valid(const Own& epilogue, const Piece& first,
                                                      const Sums& sums, const Operands& operands) {
    constexpr bool kAll = sizeof(Valid) < sizeof(int);
    const int lane = threadIdx.x % 32;
    const i64 column = first.column + lane % 4 * 8;
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const i64 row = first.row + strip * 16 + half * 8 + lane / 4;
        float v[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) v[i] = sums[strip][i / 2][half * 2 + i % 2];
        const bool inside = kAll || (row < first.rows && column < first.columns);
        if (!inside && kCounts<Valid>) continue;
        const i64 at = kAll ? row : min(row, (i64)first.rows - 1);
        const Valid valid = valid_at<Valid>(first, column, inside);
        if constexpr (Ahead::kHere) {
          epilogue(0, at, column, v, valid, operands[strip][half]);
        } else {
          epilogue(0, at, column, v, valid);
        }
      }
    }
  }

  // The column of 32 that a lane takes of B in the j-th of four tiles of eight, so that its sums
  // are neighbours (as with LinesOfB::kInOrder in contract_sm90.cuh).
  static __device__ __forceinline__ int column_of(int lane, int j) {
    return lane / 8 * 8 + j * 2 + lane / 4 % 2;
  }
};

// All rows of A, [m][k], one after the other, and B, [n][k] or (kAcross) [k][n], of one batch. A's
// lines begin at multiples of 8 elements, and so many times 8 are k's; so do B's where kWhole.
// kSteps: of 32 of k. A warp has 32 columns, and 16 * kStrips rows at a time; kGroups warps beside
// each other, of kDown * kGroups in a block, read and write whole lines, and near each other at a
// time: of reads of 64 bytes of many lines, DRAM gives three quarters of its rate.
template <typename Element, int kSteps, int kStrips, int kGroups, int kDown, bool kAcross,
          bool kWhole, class Epilogue>
struct ContractShallow {
  static constexpr int kThreads = 32 * kGroups * kDown;
  static constexpr int kTileRows = 16 * kStrips, kTileColumns = 32 * kGroups;
  static constexpr int kSharedBytes = 0;
  static constexpr int kTerms = kTermsOf<Epilogue>;
  // Units ahead, of which one of the warps beside each other has A's rows brought to the L2: they
  // all wait for the same ones. Not beside an operand as large as C, whose reads it disturbs.
  static constexpr int kFar = kGroups > 2 && !AheadIn<Epilogue>::kHere ? 2 : 0;
  static_assert(Epilogue::Rows::kParts == 0 && Epilogue::Columns::kParts == 0,
                "nothing is reduced");
  typedef WarpStrips<kStrips, Epilogue> Strips;
  struct Rows {
    uint4 at[kSteps][kStrips][2];
  };

  static __device__ __forceinline__ void run(const Element* a, const Element* b,
                                             const ContractShape& shape,
                                             const ContractStrides& strides,
                                             const Epilogue& epilogue) {
    const int warp = threadIdx.x / 32;
    const int parts = (shape.n + kTileColumns - 1) / kTileColumns;
    const int first = blockIdx.x % parts * kTileColumns, column = first + warp % kGroups * 32;
    __shared__ __align__(16) float terms[kTerms > 0 ? kTerms * kTileColumns : 1];
    const auto kept = with_terms<kTileColumns>(epilogue, terms, first, threadIdx.x);
    if constexpr (kTerms > 0) __syncthreads();
    if (column >= shape.n) return;
    const int units = (shape.m + kTileRows - 1) / kTileRows;
    const int stride = gridDim.x / parts * kDown;
    int unit = blockIdx.x / parts * kDown + warp / kGroups;
    Rows next;
    load(a, shape, strides, unit, unit < units, next);
    // Beyond the last unit, no row is real.
    const auto piece_of = [&](int number) {
      return Piece{0, min(number, units) * kTileRows, column, shape.m, shape.n};
    };
    typename Strips::Operands following;
    Strips::load_operands(epilogue, piece_of(unit), following);
    uint4 columns[kSteps][4];
    load_columns_of(b, shape, strides, column, columns);
#pragma unroll 1
    for (; unit < units; unit += stride) {
      const Rows rows = next;
      load(a, shape, strides, unit + stride, unit + stride < units, next);
      if (kFar > 0 && warp % kGroups == 0) prefetch(a, shape, strides, unit + kFar * stride);
      typename Strips::Operands operands;
      memcpy(&operands, &following, sizeof(operands));
      Strips::load_operands(epilogue, piece_of(unit + stride), following);
      typename Strips::Sums sums = {};
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          Strips::template add<Element>(rows.at[step], j, columns[step][j], sums);
        }
      }
      Strips::finish(kept, piece_of(unit), sums, operands);
    }
  }

  static __device__ __forceinline__ void load(const Element* a, const ContractShape& shape,
                                              const ContractStrides& strides, int unit, bool here,
                                              Rows& rows) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        // Rows beyond the last are computed from it, and never stored.
        const int row = min(unit * kTileRows + strip * 16 + half * 8 + lane / 4, shape.m - 1);
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          const int k = step * 32 + lane % 4 * 8;
          rows.at[step][strip][half] = load_words(
              reinterpret_cast<const uint4*>(a + row * strides.a_line + k), here && k < shape.k);
        }
      }
    }
  }

  // To the L2.
  static __device__ __forceinline__ void prefetch(const Element* a, const ContractShape& shape,
                                                  const ContractStrides& strides, int unit) {
    const int row = unit * kTileRows + threadIdx.x % 32;
    if (threadIdx.x % 32 >= kTileRows || row >= shape.m) return;
#pragma unroll
    for (int k = 0; k < kSteps * 32; k += 64) {
      if (k < shape.k) prefetch_eight(a + row * strides.a_line + k);
    }
  }

  // A lane's part of 32 columns.
  static __device__ __forceinline__ void load_columns_of(const Element* b,
                                                         const ContractShape& shape,
                                                         const ContractStrides& strides, int first,
                                                         uint4 (&columns)[kSteps][4]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int k = step * 32 + lane % 4 * 8;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = first + Strips::column_of(lane, j);
        const Element* const line = b + (kAcross ? column : column * strides.b_line);
        if constexpr (kWhole && !kAcross) {
          columns[step][j] =
              load_words(reinterpret_cast<const uint4*>(line + k), k < shape.k && column < shape.n);
        } else {
          Pack<Element, 8> own;
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            own.v[i] = load_words(line + (kAcross ? (k + i) * strides.b_line : k + i),
                                  k + i < shape.k && column < shape.n);
          }
          memcpy(&columns[step][j], &own, 16);
        }
      }
    }
  }
};

// B, [k][n], of each batch, and A, [m][k], which all of them share: images whose channels come
// before their pixels. B's lines begin at multiples of kPixels elements, 4 or 8, of which n is one.
// kSteps: of 16 of k. A warp has 8 * kPixels columns at a time, of 16 * kRowTiles rows.
template <typename Element, int kSteps, int kPixels, int kRowTiles, class Epilogue>
struct ContractShallowAcross {
  static constexpr int kThreads = 128;
  static constexpr int kTileRows = 16 * kRowTiles, kTileColumns = 8 * kPixels;
  static constexpr int kSharedBytes = kRowTiles * kSteps * 512;
  static_assert(Epilogue::Rows::kParts == 0 && Epilogue::Columns::kParts == 0,
                "nothing is reduced");

  static __device__ __forceinline__ void run(const Element* a, const Element* b,
                                             const ContractShape& shape,
                                             const ContractStrides& strides,
                                             const Epilogue& epilogue) {
    extern __shared__ __align__(16) uint4 fragments[];  // [16 rows][step][lane]
    const int lane = threadIdx.x % 32;
    const int parts = (shape.m + kTileRows - 1) / kTileRows;
    const int first = blockIdx.x % parts * kTileRows;
    const int tiles = (shape.n + kTileColumns - 1) / kTileColumns;  // of a batch
    const int units = tiles * shape.inner * shape.outer;
    const int stride = gridDim.x / parts * (kThreads / 32);
    int unit = blockIdx.x / parts * (kThreads / 32) + threadIdx.x / 32;
    u32 words[kSteps][kPixels][2];  // of two neighbours of k each, as the tensor cores take them
    if (unit < units) load(b, shape, strides, unit, tiles, words);
    fill(a, shape, strides, first, fragments);
    __syncthreads();
    while (unit < units) {
      const int batch = unit / tiles, column = unit % tiles * kTileColumns;
#pragma unroll 1
      for (int i = 0; i < kRowTiles && first + i * 16 < shape.m; ++i) {
        float acc[kPixels][4] = {};
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          const uint4 own = fragments[(i * kSteps + step) * 32 + lane];
          const u32 rows[4] = {own.x, own.y, own.z, own.w};
#pragma unroll
          for (int j = 0; j < kPixels; ++j) {
            multiply(acc[j], rows, words[step][j][0], words[step][j][1], Element{});
          }
        }
        const int row = first + i * 16;
        if (row + 16 <= shape.m && column + kTileColumns <= shape.n) {
          finish<Eight>(epilogue, shape, batch, row, column, acc);
        } else if (shape.n % 8 == 0) {
          finish<AllOrNone>(epilogue, shape, batch, row, column, acc);
        } else {
          finish<int>(epilogue, shape, batch, row, column, acc);
        }
      }
      unit += stride;
      if (unit < units) load(b, shape, strides, unit, tiles, words);
    }
  }

  // A lane has four neighbours of k and kPixels of n, of each step: of eight, those which make what
  // a quad of lanes stores together neighbours, too.
  static __device__ __forceinline__ void load(const Element* b, const ContractShape& shape,
                                              const ContractStrides& strides, int unit, int tiles,
                                              u32 (&words)[kSteps][kPixels][2]) {
    const int lane = threadIdx.x % 32;
    const int outer = unit / tiles / shape.inner, inner = unit / tiles % shape.inner;
    const int column = unit % tiles * kTileColumns +
                       (kPixels == 8 ? lane / 4 % 2 * 32 + lane / 8 * 8 : lane / 4 * 4);
    b += outer * strides.b_outer + inner * strides.b_inner + column;
    typedef Pack<Element, kPixels> Line;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      u32 lines[4][kPixels / 2];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int k = step * 16 + lane % 4 * 4 + i;
        const bool real = k < shape.k && column < shape.n;
        const Line line =
            load_words(reinterpret_cast<const Line*>(b + (real ? k * strides.b_line : 0)), real);
        memcpy(lines[i], &line, sizeof(line));
      }
#pragma unroll
      for (int j = 0; j < kPixels; ++j) {
        const u32 select = j % 2 == 0 ? 0x5410 : 0x7632;
        words[step][j][0] = __byte_perm(lines[0][j / 2], lines[1][j / 2], select);
        words[step][j][1] = __byte_perm(lines[2][j / 2], lines[3][j / 2], select);
      }
    }
  }

  static __device__ __forceinline__ void fill(const Element* a, const ContractShape& shape,
                                              const ContractStrides& strides, int first,
                                              uint4* fragments) {
    constexpr int kAll = kRowTiles * kSteps * 32;
#pragma unroll 4
    for (int at = threadIdx.x; at < kAll; at += kThreads) {
      const int lane = at % 32, step = at / 32 % kSteps, row = first + at / (32 * kSteps) * 16;
      const int k = step * 16 + lane % 4 * 4;
      Pack<Element, 8> own;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int line = row + lane / 4 + i / 2 % 2 * 8, depth = k + i / 4 * 2 + i % 2;
        const bool real = line < shape.m && depth < shape.k;
        own.v[i] = load_words(a + (real ? line * strides.a_line + depth : 0), real);
      }
      memcpy(&fragments[at], &own, 16);
    }
  }

  template <class Valid>
  static __device__ __forceinline__ void finish(const Epilogue& epilogue,
                                                const ContractShape& shape, int batch,
                                                int first_row, int first_column,
                                                const float (&acc)[kPixels][4]) {
    constexpr bool kWhole = sizeof(Valid) < sizeof(int);
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const i64 row = first_row + half * 8 + lane / 4;
#pragma unroll
      for (int e = 0; e < kPixels / 4; ++e) {
        const i64 column = first_column + lane % 4 * 8 + e * 32;
        float v[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) v[i] = acc[i % kPixels][half * 2 + (e * 8 + i) / kPixels];
        const bool inside = kWhole || (row < shape.m && column < shape.n);
        if (!inside && kCounts<Valid>) continue;
        epilogue(batch, kWhole ? row : min(row, (i64)shape.m - 1), column, v,
                 valid_at<Valid>(Piece{0, 0, first_column, shape.m, shape.n}, column, inside));
      }
    }
  }
};
