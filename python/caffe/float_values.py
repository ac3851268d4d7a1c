"""The type of `blob.float_data`: the values of a blob of any type as float32, a copy."""
import numpy as np


class FloatValues(np.ndarray):
    """A read-only float32 array. Assigning to its elements is an error that explains what to do."""

    writer = 'blob.float_data = x'

    def __new__(cls, array, writer=None):
        # np.array: a copy in every case, which owns its memory.
        values = np.array(array, dtype=np.float32).view(cls)
        if writer is not None:
            values.writer = writer
        values.flags.writeable = False
        return values

    def __array_finalize__(self, source):
        if isinstance(source, FloatValues):
            self.writer = source.writer

    def _refuse(self):
        if not self.flags.writeable:
            raise ValueError('this is a read-only copy of the blob: write with %s, or '
                             'change a .copy() of this array and assign it' % self.writer)

    def __setitem__(self, key, value):
        self._refuse()
        super().__setitem__(key, value)

    def fill(self, value):
        self._refuse()
        super().fill(value)

    # `blob.float_data += x` reads, adds and assigns to the blob.
    def __iadd__(self, other):
        return self + other

    def __isub__(self, other):
        return self - other

    def __imul__(self, other):
        return self * other

    def __itruediv__(self, other):
        return self / other

    def __array_wrap__(self, array, context=None, return_scalar=False):
        return array[()] if array.ndim == 0 else np.asarray(array)
