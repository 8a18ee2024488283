"""Bytes of elements, as they are stored."""

BITS = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16, "i32": 32, "u8": 8, "i4": 4, "u4": 4,
        "fp4_e2m1": 4}


def size_in_bytes(dtype, elements):
    return (elements * BITS[dtype] + 7) // 8
