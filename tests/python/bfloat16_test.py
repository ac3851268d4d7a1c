import numpy as np
import pytest

from caffe import bfloat16


def test_every_code_comes_back():
    codes = np.arange(65536, dtype=np.uint32).astype(np.uint16)
    values = bfloat16.to_float(codes)
    nan = np.isnan(values)
    assert nan.sum() == 2 * 127
    np.testing.assert_array_equal(bfloat16.from_float(values)[~nan], codes[~nan])
    assert np.isnan(bfloat16.to_float(bfloat16.from_float(values[nan]))).all()


def test_rounding_is_to_nearest_even():
    def nearest(value):
        return bfloat16.to_float(bfloat16.from_float(np.float32(value))).item()
    assert nearest(1 + 2 ** -8) == 1  # a tie goes to the even code
    assert nearest(1 + 3 * 2 ** -8) == 1 + 2 ** -6
    assert nearest(1 + 2 ** -8 + 2 ** -20) == 1 + 2 ** -7
    assert nearest(3.4e38) == np.inf
    assert nearest(-1.5) == -1.5


def test_shapes_and_types():
    assert bfloat16.from_float(np.zeros((2, 3))).shape == (2, 3)
    assert bfloat16.from_float(1.0).shape == ()
    assert bfloat16.to_float(np.zeros((2, 3), np.uint16)).dtype == np.float32
    with pytest.raises(TypeError, match='uint16'):
        bfloat16.to_float(np.zeros(2))
