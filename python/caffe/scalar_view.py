"""The NumPy view of a blob without axes (a loss, an accuracy).

In BVLC's Caffe such blobs have no axes, so that NumPy refuses `view[:]` and `view[0]`. In its
OpenCL fork they have one axis, and scripts index them. A `ScalarView` has no axes and accepts both.
"""
import numbers

import numpy as np


class ScalarView(np.ndarray):
    """A 0-axis array that may also be indexed as if it had one axis of length one."""

    vector_class = np.ndarray

    def __new__(cls, array):
        array = np.asarray(array)
        if array.ndim != 0:
            raise ValueError('a scalar view has no axes, not shape %s' % (array.shape,))
        return array.view(cls)

    def _one_axis(self, key):
        """This memory with one axis if the key needs one, else None."""
        if isinstance(key, tuple) and len(key) == 1:
            key = key[0]
        if self.ndim == 0 and isinstance(key, (slice, numbers.Integral)):
            return self.view(self.vector_class).reshape(1)
        return None

    def __getitem__(self, key):
        vector = self._one_axis(key)
        return super().__getitem__(key) if vector is None else vector[key]

    def __setitem__(self, key, value):
        vector = self._one_axis(key)
        if vector is None:
            super().__setitem__(key, value)
        else:
            vector[key] = value

    def __array_wrap__(self, array, context=None, return_scalar=False):
        # Arithmetic returns a plain NumPy scalar, as for any other array without axes.
        if array is self:
            return self
        return array[()] if array.ndim == 0 else np.asarray(array)


def scalar_view(array):
    """A `ScalarView` of an array without axes; any other array as it is."""
    return ScalarView(array) if array.ndim == 0 else array
