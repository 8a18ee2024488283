// The shape of a convolution over up to three axes; those that it lacks come first and have extent
// 1. The result lies as [image][group][filter][pixel]: for each image and group a matrix whose rows
// are filters and whose columns are the pixels of the result.

struct ConvolutionShape {
  int images, groups;
  int channels;  // of a group's input
  int filters;   // of a group's result
  int in[3], out[3], taps[3], stride[3], padding[3], dilation[3];

  __device__ __forceinline__ constexpr int pixels() const { return out[0] * out[1] * out[2]; }
  __device__ __forceinline__ constexpr int all_taps() const { return taps[0] * taps[1] * taps[2]; }
  // Whether a window may reach beyond the input along an axis.
  __device__ __forceinline__ constexpr bool pads(int axis) const {
    return padding[axis] > 0 ||
           (out[axis] - 1) * stride[axis] + (taps[axis] - 1) * dilation[axis] >= in[axis];
  }
  // The pixels of an image in groups of eight: an epilogue takes them so.
  __device__ __forceinline__ constexpr int eights() const { return (pixels() + 7) / 8; }
};

// The distances between neighbours of the input along each axis, in elements.
struct ConvolutionStrides {
  i64 image, channel, at[3];
};

// Where the window of a result begins along each axis, perhaps before the input.
struct WindowStart {
  int at[3];

  __device__ __forceinline__ WindowStart(const ConvolutionShape& shape, int pixel) {
    const int place[3] = {pixel / (shape.out[1] * shape.out[2]),
                          pixel / shape.out[2] % shape.out[1], pixel % shape.out[2]};
#pragma unroll
    for (int i = 0; i < 3; ++i) at[i] = place[i] * shape.stride[i] - shape.padding[i];
  }
  // Whether the input has what lies `steps` further along an axis.
  __device__ __forceinline__ bool inside(const ConvolutionShape& shape, int axis, int steps) const {
    return !shape.pads(axis) || (u32)(at[axis] + steps) < (u32)shape.in[axis];
  }
};
