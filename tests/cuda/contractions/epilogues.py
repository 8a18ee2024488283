"""Epilogues as the generator would write them: what follows a product."""

STORE = """
struct Store {
  typedef NoReduction Rows;
  typedef NoReduction Columns;
  T* out;
  int m, n;
  template <class Valid>
  __device__ void operator()(int batch, i64 row, i64 column, float (&v)[8], Valid valid) const {
    store_columns<ALIGN>(out + (batch * (i64)m + row) * n + column, valid, v);
  }
};
"""
BIAS_GELU = """
struct Store {
  typedef NoReduction Rows;
  typedef NoReduction Columns;
  T* out;
  int m, n;
  const T* bias;
  template <class Valid>
  __device__ void operator()(int batch, i64 row, i64 column, float (&v)[8], Valid valid) const {
    float w[8];
    load_columns<8>(bias + column, valid, w);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      v[i] = quick_gelu_tanh(v[i] + w[i]);
    }
    store_columns<ALIGN>(out + (batch * (i64)m + row) * n + column, valid, v);
  }
};
"""
BIAS_GELU_EXACT = BIAS_GELU.replace("quick_gelu_tanh(", "quick_gelu(")
BIAS_RELU = BIAS_GELU.replace("quick_gelu_tanh(v[i] + w[i])", "fmaxf(v[i] + w[i], 0.0f)")
BIAS_RESIDUAL = BIAS_RELU.replace("fmaxf(v[i] + w[i], 0.0f)", "v[i] + w[i] + r[i]").replace(
    "const T* bias;", "const T* bias;\n  const T* residual;").replace("float w[8];", """float w[8], r[8];
    load_columns<8>(residual + (batch * (i64)m + row) * n + column, valid, r);""")
SPLADE = """
struct Store {
  typedef NoReduction Rows;
  typedef Largest Columns;
  float* partials;
  const T* bias;
  const float* mask;
  int m, n, strips;
  template <class Valid>
  __device__ void operator()(int batch, i64 row, i64 column, float (&v)[8], Valid valid) const {
    float w[8];
    load_columns<8>(bias + column, valid, w);
    const float keep = load_input(mask + batch * (i64)m + row);
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = LOG1P(fmaxf(v[i] + w[i], 0.0f)) * keep;
  }
  __device__ void column_done(int batch, int strip, int column, Largest::State s) const {
    partials[((i64)batch * strips + strip) * n + column] = s.part[0];
  }
};
"""
MERGE_SPLADE = """
extern "C" __global__ void __launch_bounds__(256)
    merge_splade(const Largest::State* partials, T* out, int batches, int strips, int n) {
  merge_columns<Largest>(partials, batches, strips, n, [=](int o, int i, Largest::State s) {
    store_as(out[(i64)o * n + i], s.part[0]);
  });
}
"""
LOSS = """
struct Store {
  typedef ExponentialSum Rows;
  typedef NoReduction Columns;
  ExponentialSum::State* partials;
  float* picked;
  const i64* target;
  int m, n, tiles;
  template <class Valid>
  __device__ void operator()(int batch, i64 row, i64 column, float (&v)[8], Valid valid) const {
    const i64 at = load_input(target + row) - column;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (at == i && i < valid) picked[row] = v[i];
    }
  }
  __device__ void row_done(int batch, int row, int tile, ExponentialSum::State s) const {
    partials[(i64)row * tiles + tile] = s;
  }
};
"""
MERGE_LOSS = """
extern "C" __global__ void __launch_bounds__(256)
    merge_loss(const ExponentialSum::State* partials, const float* picked, float* loss, int rows,
               int tiles) {
  merge_rows<ExponentialSum>(partials, rows, tiles, [=](i64 row, ExponentialSum::State s) {
    loss[row] = ExponentialSum::result(s) - picked[row];
  });
}
"""
