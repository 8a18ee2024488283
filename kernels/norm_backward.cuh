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
  typedef Pack<typename Tiling::X, Tiling::kWidth> XPack;
  typedef Pack<typename Tiling::Dy, Tiling::kWidth> DyPack;
  static constexpr C kShare = C(1) / C(Tiling::kLength);

  struct Row {
    C mean;
    C rstd;
  };
  struct Columns {
    Pack<typename Tiling::Weight, Tiling::kWidth> weight;
  };
  struct Group {
    XPack x;
    DyPack dy;
  };

  const In& in;

  static __device__ __forceinline__ XPack* xs(u8* shared) {
    return reinterpret_cast<XPack*>(shared);
  }
  static __device__ __forceinline__ DyPack* dys(u8* shared) {
    constexpr u32 kPlaces = Tiling::kThreads * Tiling::kRounds * Tiling::kStages;
    return reinterpret_cast<DyPack*>(shared + sizeof(XPack) * kPlaces);
  }
  static __device__ __forceinline__ C centred(const Row& row, const XPack& x, int j) {
    return Tiling::kCenters ? (C)x.get(j) - row.mean : (C)x.get(j);
  }

  __device__ __forceinline__ Row row(idx r) const { return {in.mean(r), in.rstd(r)}; }
  __device__ __forceinline__ void take_columns(Columns& columns, int c,
                                               const Part<Tiling>& part) const {
    if (Tiling::kWeighs) in.take_weight(columns.weight, c, part);
  }
  __device__ __forceinline__ void start(u8* shared, u32 place, idx i) const {
    in.start_x(xs(shared)[place], i);
    in.start_dy(dys(shared)[place], i);
  }
  __device__ __forceinline__ Group group(u8* shared, u32 place) const {
    return {xs(shared)[place], dys(shared)[place]};
  }
  __device__ __forceinline__ void add(const Row& row, const Columns& columns, const Group& group,
                                      idx, idx, const Part<Tiling>& part, C* sums,
                                      C (*column_sums)[Tiling::kWidth]) const {
#pragma unroll
    for (int j = 0; j < Tiling::kWidth; ++j) {
      const C v = (C)group.dy.get(j);
      const C n = centred(row, group.x, j) * row.rstd;
      const C g = Tiling::kWeighs ? v * (C)columns.weight.get(j) : v;
      if (Tiling::kDx && part.has(j)) {
        sums[0] += g * n;
        if (Tiling::kCenters) sums[1] += g;
      }
      if (Tiling::kDw) column_sums[0][j] = v * n;
      if (Tiling::kDb) column_sums[Tiling::kDw ? 1 : 0][j] = v;
    }
  }
  __device__ __forceinline__ void store_row(const Row&, idx, const C*) const {}
  __device__ __forceinline__ void finish(const Row& row, const Columns& columns, const Group& group,
                                         idx, idx i, const Part<Tiling>& part, const C* sums,
                                         C (*)[Tiling::kWidth]) const {
    if (!Tiling::kDx) return;
    const C offset = Tiling::kCenters ? -row.rstd * kShare * sums[1] : C(0);
    const C along = -row.rstd * row.rstd * kShare * sums[0];
    C dx[Tiling::kWidth];
#pragma unroll
    for (int j = 0; j < Tiling::kWidth; ++j) {
      const C v = (C)group.dy.get(j);
      const C g = Tiling::kWeighs ? v * (C)columns.weight.get(j) : v;
      dx[j] = centred(row, group.x, j) * along + (g * row.rstd + offset);
    }
    in.store_dx(i, dx, part);
  }
  __device__ __forceinline__ void store_column(u32 which, u32 c, C sum) const {
    if (Tiling::kDw && which == 0) {
      in.store_dw(c, sum);
    } else {
      in.store_db(c, sum);
    }
  }
};
