// Rows of a product in groups, each of which multiplies a matrix of B of its own: the tokens of a
// mixture's experts. Needs tile_walk.cuh before it.

// Group i has the rows before ends(i) that no group before it has. Rows behind the last group's end
// are zero; they count as a group more, whose matrix does not exist. Ends is a struct that the
// generator writes:
//   __device__ i64 operator()(int group) const;
// Tiles begin where groups do, so that how many there are is known on the device alone: at most
// (rows + (kCount + 1) * (rows of a tile - 1)) / (rows of a tile) above each other.
template <class Ends, int kCount>
struct RowGroups {
  static constexpr bool kHere = true;
  struct Table {
    int first_row[kCount + 2], first_unit[kCount + 2];  // of each group, and behind the last
  };
  Ends ends;

  // By all threads of a block, which may then call the others.
  __device__ __forceinline__ TileWalk walk(const ContractShape& shape, int unit_rows,
                                           int tile_columns) const {
    if (threadIdx.x < 32) fill(shape.m, unit_rows);
    __syncthreads();
    TileWalk walk(shape, unit_rows, tile_columns);
    walk.units = walk.row_units = table().first_unit[kCount + 1];
    walk.total = walk.units * walk.columns;
    return walk;
  }
  // One group after the other, so that each matrix of B is fetched once, while the rows of A that
  // multiply it stay in the L2: twice as many as of a single matrix, in even parts.
  __device__ __forceinline__ TileRows locate(const TileWalk& walk, const ContractShape& shape,
                                             int unit_rows, int tile, int* column) const {
    // The last group that does not begin behind the tile: those that begin where another does have
    // no rows.
    const Table& groups = table();
    int group = 0, behind = kCount + 1;
    while (behind - group > 1) {
      const int middle = (group + behind) / 2;
      (groups.first_unit[middle] * walk.columns <= tile ? group : behind) = middle;
    }
    const int units = groups.first_unit[group + 1] - groups.first_unit[group];
    const int parts = (units + 2 * shape.group - 1) / (2 * shape.group);
    const int each = (units + parts - 1) / parts;
    const int own = tile - groups.first_unit[group] * walk.columns;
    const int part = own / (each * walk.columns), at = own - part * each * walk.columns;
    const int together = min(each, units - part * each);
    *column = at / together;
    const int unit = part * each + at - *column * together;
    return {0, groups.first_row[group] + unit * unit_rows, groups.first_row[group + 1], group,
            group == kCount};
  }

 private:
  static __device__ __forceinline__ Table& table() {
    __shared__ Table groups;
    return groups;
  }
  // By a warp, 32 groups at a time.
  __device__ __forceinline__ void fill(int rows, int unit_rows) const {
    Table& groups = table();
    const int lane = threadIdx.x % 32;
    int row = 0, unit = 0;  // where these 32 begin
    for (int first = 0; first <= kCount; first += 32) {
      const int group = first + lane;
      int end = group < kCount ? (int)min(max(ends(group), (i64)0), (i64)rows) : rows;
#pragma unroll
      for (int by = 1; by < 32; by *= 2) {
        const int before = __shfl_up_sync(0xffffffffu, end, by);
        if (lane >= by) end = max(end, before);
      }
      end = max(end, row);
      const int before = __shfl_up_sync(0xffffffffu, end, 1);
      const int start = lane > 0 ? before : row;
      const int own = (end - start + unit_rows - 1) / unit_rows;
      int units = own;
#pragma unroll
      for (int by = 1; by < 32; by *= 2) {
        const int more = __shfl_up_sync(0xffffffffu, units, by);
        if (lane >= by) units += more;
      }
      if (group <= kCount) {
        groups.first_row[group] = start;
        groups.first_unit[group] = unit + units - own;
      }
      row = __shfl_sync(0xffffffffu, end, 31);
      unit += __shfl_sync(0xffffffffu, units, 31);
    }
    if (lane == 0) groups.first_row[kCount + 1] = rows, groups.first_unit[kCount + 1] = unit;
  }
};
