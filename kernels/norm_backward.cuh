// The gradients of a layer_norm or an rms_norm. With n = (x - mean) rstd and g = dy w:
//   dx = rstd (g - mean of g - n (mean of g n)), the means being taken over the row;
//   dw = sum over the rows of dy n; db = sum over the rows of dy.
// An rms_norm has no mean, neither of x nor of g.
//
// `Tiling` has the constants of column_sums.cuh, the types X, Dy and Weight on chip, and which
// gradients are needed; `In` reads the operands and stores the results.
template <typename Tiling, typename In>
struct NormGradients {
  typedef typename Tiling::Number C;
  typedef typename Tiling::X X;
  typedef typename Tiling::Dy Dy;
  static constexpr int kWidth = Tiling::kWidth;
  static constexpr C kShare = C(1) / C(Tiling::kLength);

  struct Row {
    C mean;
    C rstd;
  };
  // dx = d along + (g rstd + offset), where d is x without the mean.
  struct Results {
    C offset;
    C along;
  };
  template <int N>
  struct Columns {
    Pack<typename Tiling::Weight, N> weight;
  };
  template <int N>
  struct Group {
    Pack<X, N> x;
    Pack<Dy, N> dy;
  };

  const In& in;

  static __device__ __forceinline__ Pack<X, kWidth>* xs(u8* shared) {
    return reinterpret_cast<Pack<X, kWidth>*>(shared);
  }
  static __device__ __forceinline__ Pack<Dy, kWidth>* dys(u8* shared) {
    constexpr u32 kPlaces = Tiling::kThreads * Tiling::kRounds * Tiling::kStages;
    return reinterpret_cast<Pack<Dy, kWidth>*>(shared + sizeof(Pack<X, kWidth>) * kPlaces);
  }
  template <int N>
  static __device__ __forceinline__ C centred(const Row& row, const Pack<X, N>& x, int j) {
    return Tiling::kCenters ? (C)x.get(j) - row.mean : (C)x.get(j);
  }

  __device__ __forceinline__ Row row(idx r) const { return {in.mean(r), in.rstd(r)}; }
  template <int N>
  __device__ __forceinline__ void take_columns(Columns<N>& columns, u32 c) const {
    if constexpr (Tiling::kWeighs) in.take_weight(columns.weight, c);
  }
  __device__ __forceinline__ void start(u8* shared, u32 place, idx i) const {
    in.start_x(xs(shared)[place], i);
    in.start_dy(dys(shared)[place], i);
  }
  __device__ __forceinline__ Group<kWidth> group(u8* shared, u32 place) const {
    return {xs(shared)[place], dys(shared)[place]};
  }
  __device__ __forceinline__ Group<1> read(idx i) const { return {in.read_x(i), in.read_dy(i)}; }
  template <int N>
  __device__ __forceinline__ void add(const Row& row, const Columns<N>& columns,
                                      const Group<N>& group, idx, idx, C* sums,
                                      C (*column_sums)[N]) const {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const C v = (C)group.dy.get(j);
      const C n = centred(row, group.x, j) * row.rstd;
      const C g = Tiling::kWeighs ? v * (C)columns.weight.get(j) : v;
      if (Tiling::kDx) sums[0] += g * n;
      if (Tiling::kDx && Tiling::kCenters) sums[1] += g;
      if (Tiling::kDw) column_sums[0][j] = v * n;
      if (Tiling::kDb) column_sums[Tiling::kDw ? 1 : 0][j] = v;
    }
  }
  __device__ __forceinline__ void store_row(const Row&, idx, const C*) const {}
  __device__ __forceinline__ Results results(const Row& row, const C* sums) const {
    return {Tiling::kCenters ? -row.rstd * kShare * sums[1] : C(0),
            -row.rstd * row.rstd * kShare * sums[0]};
  }
  template <int N>
  __device__ __forceinline__ void finish(const Row& row, const Columns<N>& columns,
                                         const Group<N>& group, idx, idx i, const Results& results,
                                         C (*)[N]) const {
    if (!Tiling::kDx) return;
    C dx[N];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const C v = (C)group.dy.get(j);
      const C g = Tiling::kWeighs ? v * (C)columns.weight.get(j) : v;
      dx[j] = centred(row, group.x, j) * results.along + (g * row.rstd + results.offset);
    }
    in.store_dx(i, dx);
  }
  __device__ __forceinline__ void store_column(u32 which, u32 c, C sum) const {
    if (Tiling::kDw && which == 0) {
      in.store_dw(c, sum);
    } else {
      in.store_db(c, sum);
    }
  }
};
