"""bfloat16 as uint16 codes, the upper half of a float32, for files and older scripts.

Views of blobs are arrays of `ml_dtypes.bfloat16`, which behave as numbers: `blob.data[...] = 0.5`.
A script that has codes assigns them to the view's bits:
`blob.data.view(numpy.uint16)[...] = codes`.
"""
import ml_dtypes
import numpy as np

dtype = np.dtype(ml_dtypes.bfloat16)


def from_float(values):
    """The bfloat16 codes of numbers, rounded to nearest, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7fff) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet_nan = (bits >> np.uint32(16)) | np.uint32(0x40)
    is_nan = (bits & np.uint32(0x7fffffff)) > np.uint32(0x7f800000)
    codes = np.where(is_nan, quiet_nan, rounded).astype(np.uint16)
    return codes.reshape(np.shape(values))


def to_float(codes):
    """A float32 array with the values of bfloat16 codes, or of an array of `ml_dtypes.bfloat16`."""
    codes = np.asarray(codes)
    if codes.dtype == dtype:
        return codes.astype(np.float32)
    if codes.dtype != np.uint16:
        raise TypeError('bfloat16 codes are uint16, not %s' % codes.dtype)
    wide = np.ascontiguousarray(codes).astype(np.uint32) << np.uint32(16)
    return wide.view(np.float32).reshape(codes.shape)
