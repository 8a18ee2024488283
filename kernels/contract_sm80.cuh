// C[m][n] = sum over k of A B, batched, for sm_80 and everything after it, of any size, stride and
// alignment, with an epilogue (epilogue.cuh) in place of a plain store. Needs elements.cuh,
// quick.cuh, accumulators.cuh, epilogue.cuh, tile_walk.cuh, prologue.cuh and mma.cuh before it.
//
// An entry is
//   extern "C" __global__ void __launch_bounds__(256, ContractSm80<...>::kBlocksPerSm)
//       name(const Element* a, const Element* b, ...) {
//     ContractSm80<Element, Product, kAlignA, kAlignB, kAlongM, kAlongN, Epilogue>::run(
//         a, b, shape, strides, Epilogue{...});
//   }
// Element: bf16, f16, f32, or fp8 (16 to 4 elements aligned, and neither operand across k).
// Product: what they are multiplied as: the same (f32 means tf32), or exact_f32. kAlign: 8, 4, 2 or
// 1: every row (the lines below) begins at a multiple of that many elements, and of as many bytes
// in memory. kAlongM: A lies as [k][m], else [m][k]. kAlongN: B lies as [k][n], else [n][k].
// With a Prologue (prologue.cuh) run() takes it in place of a: elements are of 16 bits.
// Launch: 256 threads, kSharedBytes of dynamic shared memory, one block for each tile of
// kTileRows x kTileColumns of each batch. A row's partials count tiles of kTileColumns.
//
// Traffic: as for sm_90, the walk keeps a group's rows of A in the L2 while B streams through.
// Tiles are half as wide: an operand is fetched from the L2 twice as often per product.

template <typename Element, typename Product, int kAlignA, int kAlignB, bool kAlongM, bool kAlongN,
          class Epilogue, class Prologue = NoPrologue>
struct ContractSm80 {
  static constexpr int kTileRows = 128, kTileColumns = 128;
  static constexpr int kLineBytes = 64;  // of K in a tile
  static constexpr int kSize = sizeof(Element);
  static constexpr int kTileDepth = kLineBytes / kSize;
  static constexpr int kThreads = 256;
  // Narrow copies need many addresses, exact products many split operands, and prologues what they
  // load ahead: one block per multiprocessor leaves the registers for them.
  static constexpr int kBlocksPerSm = kLoadedBytes<Prologue> > 32 || kAlignA* kSize < 8 ||
                                              kAlignB* kSize<8 || sizeof(Product)> kSize
                                          ? 1
                                          : 2;
  static constexpr int kStages = 4;
  static constexpr int kTileBytes = kTileRows * kLineBytes;
  static constexpr int kSharedBytes = kStages * 2 * kTileBytes;
  typedef typename Epilogue::Rows Rows;
  typedef typename Epilogue::Columns Columns;
  static constexpr bool kPairs = kTakesPairs<Epilogue>;
  typedef ProductsOf<Epilogue> Products;
  static constexpr int kSources = kPairs ? 2 : Products::kProducts;
  typedef SourcesOfB<Element, kSources> Sources;
  static_assert(kSources == 1 || !kAlongN, "lines of B are columns");

  // A tile in shared memory: K-major, a line of 64 bytes for each m (n); or a line of 128 elements
  // for each k. Chunks of 16 bytes are permuted so that no two of a matrix's rows share banks.
  template <bool kTransposed>
  static __device__ __forceinline__ int place(int line, int byte) {
    if constexpr (kTransposed) {
      const int swap = kSize == 2 ? line & 7 : (line & 3) << 1;
      return line * (128 * kSize) + (((byte >> 4) ^ swap) << 4 | (byte & 15));
    } else {
      return line * kLineBytes + (((byte >> 4) ^ ((line >> 1) & 3)) << 4 | (byte & 15));
    }
  }

  // One operand's tile at (first, k): lines beyond the tensor and what lies behind a line's end
  // become 0. With halves, each 32 lines of the first are followed by those of the second.
  template <int kAlign, bool kTransposed, bool kTwo = false>
  static __device__ __forceinline__ void fetch(u8* tile, const Element* from, const Element* second,
                                               i64 stride, int first, int extent, int k,
                                               int depth) {
    constexpr int kPiece = kAlign * kSize < 16 ? kAlign * kSize : 16;
    constexpr int kAcross = kTransposed ? 128 * kSize : kLineBytes;
    constexpr int kPerLine = kAcross / kPiece;
    const int line0 = kTransposed ? k : first, across0 = kTransposed ? first : k;
    const int lines = kTransposed ? depth : extent, across = kTransposed ? extent : depth;
#pragma unroll
    for (int i = 0; i < kTileBytes / kPiece / kThreads; ++i) {
      const int piece = threadIdx.x + i * kThreads;
      const int line = piece / kPerLine, byte = piece % kPerLine * kPiece;
      const int at = across0 + byte / kSize;
      int from_line = line0 + line;
      bool inside = from_line < lines;
      if constexpr (kTwo) {
        from_line = line0 / 2 + line / 64 * 32 + line % 32;
        inside = from_line < lines / 2;
      }
      const int left = inside ? across - at : 0;
      const Element* const lines_from = kTwo && line / 32 % 2 == 1 ? second : from;
      const Element* source = left > 0 ? lines_from + from_line * stride + at : from;
      u8* const to = tile + place<kTransposed>(line, byte);
      if constexpr (kPiece >= 4) {
        copy_async<kPiece>(to, source, max(0, min(kPiece, left * kSize)));
      } else {
        // There is no asynchronous copy of so few bytes.
        *reinterpret_cast<unsigned short*>(to) =
            left > 0 ? *reinterpret_cast<const unsigned short*>(source) : (unsigned short)0;
      }
    }
  }

  // The 16 x 32-byte fragment of A whose rows begin at m, slice 0 or 1 of the tile's depth.
  static __device__ __forceinline__ void fragment_a(const u8* tile, int m, int slice, u32 (&r)[4]) {
    const int lane = threadIdx.x % 32, q = lane / 8;
    if constexpr (!kAlongM) {
      load_matrices(tile + place<false>(m + lane % 8 + (q & 1) * 8, slice * 32 + (q >> 1) * 16), r);
    } else if constexpr (kSize == 2) {
      load_matrices_transposed(
          tile + place<true>(slice * 16 + lane % 8 + (q >> 1) * 8, (m + (q & 1) * 8) * 2), r);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        r[i] = *reinterpret_cast<const u32*>(tile + place<true>(slice * 8 + lane % 4 + (i >> 1) * 4,
                                                                (m + lane / 4 + (i & 1) * 8) * 4));
      }
    }
  }

  // Two 32-byte x 8 fragments of B, columns n..n+15: r[0], r[1] of the first, r[2], r[3] of the
  // next.
  static __device__ __forceinline__ void fragment_b(const u8* tile, int n, int slice, u32 (&r)[4]) {
    const int lane = threadIdx.x % 32, q = lane / 8;
    if constexpr (!kAlongN) {
      load_matrices(tile + place<false>(n + lane % 8 + (q >> 1) * 8, slice * 32 + (q & 1) * 16), r);
    } else if constexpr (kSize == 2) {
      load_matrices_transposed(
          tile + place<true>(slice * 16 + lane % 8 + (q & 1) * 8, (n + (q >> 1) * 8) * 2), r);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        r[i] = *reinterpret_cast<const u32*>(tile + place<true>(slice * 8 + lane % 4 + (i & 1) * 4,
                                                                (n + lane / 4 + (i >> 1) * 8) * 4));
      }
    }
  }

  // A's tiles, made or fetched as steps are asked for in order.
  struct MadeA {
    typedef PrologueTile<Prologue, kTileRows, kTileDepth, kThreads> Tile;
    static constexpr int kChunks = Tile::kChunks;
    const Prologue& prologue;
    const ContractShape& shape;
    i64 q;
    int m, k;
    Loaded<typename Tile::Function> loaded[kChunks];

    __device__ __forceinline__ MadeA(const Prologue& source, const ContractShape& of, int batch,
                                     int first)
        : prologue(source), shape(of), q(first_line<Prologue>(of, batch)), m(first), k(0) {
      load();
    }
    __device__ __forceinline__ void load() {
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        loaded[i] = Tile::load(prologue, shape, q, m + Tile::line(threadIdx.x) + i * Tile::kStep,
                               k + Tile::column(threadIdx.x));
      }
    }
    __device__ __forceinline__ void operator()(u8* tile, int) {
      const int column = Tile::column(threadIdx.x);
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        *reinterpret_cast<uint4*>(
            tile + place<false>(Tile::line(threadIdx.x) + i * Tile::kStep, column * kSize)) =
            Tile::make(loaded[i], shape, k + column);
      }
      k += kTileDepth;
      load();
    }
  };
  struct FetchedA {
    const Element* a;
    const ContractShape& shape;
    i64 line;
    int m;

    __device__ __forceinline__ FetchedA(const Element* from, const ContractShape& of,
                                        const ContractStrides& strides, int batch, int first)
        : a(from + batch / of.inner * strides.a_outer + batch % of.inner * strides.a_inner),
          shape(of),
          line(strides.a_line),
          m(first) {}
    __device__ __forceinline__ void operator()(u8* tile, int step) {
      fetch<kAlignA, kAlongM>(tile, a, a, line, m, shape.m, step * kTileDepth, shape.k);
    }
  };

  template <class A>
  static __device__ __forceinline__ void run(const A& a, const Element* b,
                                             const ContractShape& shape,
                                             const ContractStrides& strides,
                                             const Epilogue& epilogue) {
    run(a, Sources{{b}}, shape, strides, epilogue);
  }
  // With halves, the second source has the second half of B's columns. All batches share several.
  template <class A>
  static __device__ __forceinline__ void run(const A& a, const Sources& sources,
                                             const ContractShape& shape,
                                             const ContractStrides& strides,
                                             const Epilogue& epilogue) {
    const TileWalk walk(shape, kTileRows, kTileColumns);
    int batch, unit, column;
    walk.locate(blockIdx.x, &batch, &unit, &column);
    const int m = unit * kTileRows;
    const TileColumn at = Products::template locate<kTileColumns>(column, shape.n);
    const Element* const b = sources.at(kPairs ? 0 : at.product) +
                             batch / shape.inner * strides.b_outer +
                             batch % shape.inner * strides.b_inner;
    const Element* const b2 = sources.of[kSources - 1];
    if constexpr (Prologue::kHere) {
      MadeA source(a, shape, batch, m);
      multiply_tile(source, b, b2, shape, strides, epilogue, batch, unit, column, at);
    } else {
      FetchedA source(a, shape, strides, batch, m);
      multiply_tile(source, b, b2, shape, strides, epilogue, batch, unit, column, at);
    }
  }

  template <class Source>
  static __device__ __forceinline__ void multiply_tile(Source& source, const Element* b,
                                                       const Element* b2,
                                                       const ContractShape& shape,
                                                       const ContractStrides& strides,
                                                       const Epilogue& epilogue, int batch,
                                                       int unit, int column, const TileColumn& at) {
    extern __shared__ __align__(128) u8 shared[];
    const int n = at.column * kTileColumns;
    const int steps = (shape.k + kTileDepth - 1) / kTileDepth;
    const auto fetch_step = [&](int step) {
      u8* const tile = shared + step % kStages * 2 * kTileBytes;
      if (step < steps) {
        source(tile, step);
        fetch<kAlignB, kAlongN, kPairs>(tile + kTileBytes, b, b2, strides.b_line, n, at.columns,
                                        step * kTileDepth, shape.k);
      }
      copies_commit();
    };
    for (int step = 0; step < kStages - 1; ++step) fetch_step(step);

    const int warp = threadIdx.x / 32;
    const int warp_m = warp / 4 * 64, warp_n = warp % 4 * 32;
    float acc[4][4][4] = {};
    for (int step = 0; step < steps; ++step) {
      copies_wait<kStages - 2>();
      __syncthreads();
      fetch_step(step + kStages - 1);
      const u8* const tile = shared + step % kStages * 2 * kTileBytes;
#pragma unroll
      for (int slice = 0; slice < 2; ++slice) {
        u32 fa[4][4], fb[2][4];
#pragma unroll
        for (int i = 0; i < 4; ++i) fragment_a(tile, warp_m + i * 16, slice, fa[i]);
#pragma unroll
        for (int j = 0; j < 2; ++j) fragment_b(tile + kTileBytes, warp_n + j * 16, slice, fb[j]);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            multiply(acc[i][j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1], Product{});
          }
        }
      }
    }
    copies_wait<0>();
    __syncthreads();
    if constexpr (kPairs) {
      finish_halves(shape, batch, unit, column, acc, shared, epilogue);
    } else {
      u8* const states = shared;
      Products::template finish<ContractSm80>(epilogue, at, shape, batch, unit, acc, states);
    }
  }

  // Every second warp has columns of the second half, and leaves them to the one before it.
  static __device__ __forceinline__ void finish_halves(const ContractShape& shape, int batch,
                                                       int unit, int column,
                                                       const float (&acc)[4][4][4], u8* shared,
                                                       const Epilogue& epilogue) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float* const second = reinterpret_cast<float*>(shared) + warp / 2 * (64 * 32) + lane;
    if (warp % 2 == 1) {
#pragma unroll
      for (int j = 0; j < 64; ++j) second[j * 32] = acc[j / 16][j / 4 % 4][j % 4];
    }
    __syncthreads();
    if (warp % 2 == 1) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Piece piece{batch, unit * kTileRows + warp / 4 * 64 + i * 16,
                        column * kTileColumns + warp % 4 * 32, shape.m, shape.n};
      float both[32];
#pragma unroll
      for (int j = 0; j < 16; ++j) {
        both[j] = acc[i][j / 4][j % 4];
        both[16 + j] = second[(i * 16 + j) * 32];
      }
      typename Rows::State none[2] = {Rows::none(), Rows::none()};
      run_epilogue<64>(epilogue, piece, both, none, nullptr);
    }
  }

  // A warp computes 64 rows (a strip) by 32 columns, of the tile's product.
  template <class Own>
  static __device__ __forceinline__ void finish(const Own& epilogue, const TileColumn& at,
                                                const ContractShape& shape, int batch, int unit,
                                                const float (&acc)[4][4][4], u8* shared) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int strip = unit * (kTileRows / ContractShape::kStripRows) + warp / 4;
    typedef typename Rows::State RowState;
    typedef typename Columns::State ColumnState;
    RowState* const row_states = reinterpret_cast<RowState*>(shared);  // [column of warps][row]
    ColumnState* const column_states =
        reinterpret_cast<ColumnState*>(shared + 8192) + warp * 4 * 32;
    const int n = at.column * kTileColumns + warp % 4 * 32;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Piece piece{batch, strip * ContractShape::kStripRows + i * 16, n, shape.m, at.columns};
      float part[16];
#pragma unroll
      for (int j = 0; j < 16; ++j) part[j] = acc[i][j / 4][j % 4];
      RowState rows[2] = {Rows::none(), Rows::none()};
      run_epilogue<32>(epilogue, piece, part, rows, column_states + i * 32);
      if constexpr (Rows::kParts > 0) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          rows[half] = merge_with_lane<Rows>(merge_with_lane<Rows>(rows[half], 1), 2);
          if (lane % 4 == 0) {
            row_states[warp % 4 * kTileRows + warp / 4 * 64 + i * 16 + lane / 4 + 8 * half] =
                rows[half];
          }
        }
      }
    }
    if constexpr (Columns::kParts > 0) {
      __syncwarp();
      ColumnState state = column_states[lane];
#pragma unroll
      for (int i = 1; i < 4; ++i) state = Columns::merge(state, column_states[i * 32 + lane]);
      if (strip * ContractShape::kStripRows < shape.m && n + lane < at.columns) {
        epilogue.column_done(batch, strip, n + lane, state);
      }
    }
    if constexpr (Rows::kParts > 0) {
      __syncthreads();
      const int row = unit * kTileRows + threadIdx.x;
      if (threadIdx.x < kTileRows && row < shape.m) {
        RowState state = row_states[threadIdx.x];
#pragma unroll
        for (int w = 1; w < 4; ++w) {
          state = Rows::merge(state, row_states[w * kTileRows + threadIdx.x]);
        }
        epilogue.row_done(batch, row, at.column, state);
      }
    }
  }
};
