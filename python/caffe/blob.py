"""Adds to the bound Blob its values as floats, whatever its type is, and its range."""
import numpy as np

from . import _caffe
from ._caffe import Blob, BlobVec, _printable
from .codes import Codes, unpacked
from .float_values import FloatValues


def _scale(self):
    """The distance between two codes, float: a code stands for (code - zero_point) * scale.

    Of a type of users with scaled=True the factor of the values of the type, a power of two. None
    for other float kinds, and for codes whose range was never observed.
    """
    return None if self._quantization is None else self._quantization[0]


def _zero_point(self):
    """The code of 0, int; None if scale is None."""
    return None if self._quantization is None else self._quantization[1]


def _range(self):
    """The smallest and the largest value that a code can have, two floats.

    None if scale is None.
    Ranges are observed under net.quant_mode = 'observe' (net.ranges), or come with a caffemodel.
    """
    if self._quantization is None:
        return None
    scale, zero, low, high = self._quantization
    return (low - zero) * scale, (high - zero) * scale


def _known(blob):
    quantization = blob._quantization
    if quantization is None:
        raise RuntimeError(
            'blob %s (%s): its range was never observed, so its codes cannot be converted; '
            'calibrate: run the net in a float type on typical data with '
            "net.quant_mode = 'observe', save it, and load that caffemodel here; or read and write "
            'codes: blob.data, net.forward(codes=True)' % (_printable(blob.name), blob._type_name))
    return quantization


def _values(blob, codes):
    """Codes as float32."""
    if blob._is_custom:
        codes = codes.view(np.ndarray)
        if blob._is_packed:
            codes = unpacked(codes, blob.shape)
        values = _caffe._values_of_codes(blob._type_name, codes)
        return values * np.float32(_known(blob)[0]) if blob._is_scaled else values
    scale, zero, _, _ = _known(blob)
    numbers = (codes.view(np.ndarray).astype(np.int32) - zero).astype(np.float32)
    return numbers * np.float32(scale)


def _codes(blob, values):
    """Codes by the library's arithmetic: from_float of a type of a user, or times 1/scale, clamped
    in float, half away from zero."""
    if blob._is_custom:
        with np.errstate(over='ignore'):
            values = np.asarray(values, dtype=np.float32)
            if blob._is_packed:
                values = np.broadcast_to(values, blob.shape)
            if blob._is_scaled:
                values = values * np.float32(1 / _known(blob)[0])
            return _caffe._codes_of_values(blob._type_name, values)
    scale, zero, low, high = _known(blob)
    with np.errstate(invalid='ignore', over='ignore'):
        numbers = np.asarray(values).astype(np.float32) * np.float32(1 / scale)
        numbers = np.clip(np.where(np.isnan(numbers), np.float32(0), numbers),
                          np.float32(low - zero), np.float32(high - zero))
        whole = np.trunc(numbers)
        whole += np.where(np.abs(numbers - whole) >= 0.5, np.sign(numbers), np.float32(0))
    return whole.astype(np.int64) + zero


def _refuse_gradient(blob):
    raise TypeError('blob %s (%s) holds codes of a quantized type, which have no gradient; train '
                     'the net in a float type' % (_printable(blob.name), blob._type_name))


def _float_data(self):
    """The values as float32, a read-only copy of the blob's shape, whatever the blob's type is.

    `blob.float_data = x` writes numbers, which are converted to the blob's type: rounded to
    nearest, and quantized by its range if it holds codes. RuntimeError if that range was
    never observed. To assign single elements change a copy, or use blob.data.
    """
    view = self.data
    values = _values(self, view) if isinstance(view, Codes) else view
    return FloatValues(values, 'blob.float_data = x')


def _float_diff(self):
    """The gradient as float32, a read-only copy; `blob.float_diff = x` writes it.

    TypeError for quantized types, which have no gradient.
    """
    view = self.diff
    if isinstance(view, Codes):
        view = _values(self, view) if self._is_custom else _refuse_gradient(self)
    return FloatValues(view, 'blob.float_diff = x')


def _assign(blob, view, values):
    try:
        view[...] = values
    except ValueError:
        if np.shape(values) == view.shape:
            raise
        raise ValueError('blob %s has the shape %s, not %s'
                         % (_printable(blob.name), view.shape, np.shape(values))) from None


def _set_float_data(self, values):
    view = self.data
    _assign(self, view, _codes(self, values) if isinstance(view, Codes) else values)
    first = self._first_version
    if first is not None:  # its type or its range may be another one
        first.float_data = values
        self._note_first_version()


def _set_float_diff(self, values):
    view = self.diff
    if isinstance(view, Codes):
        values = _codes(self, values) if self._is_custom else _refuse_gradient(self)
    _assign(self, view, values)


def _array(self, dtype=None, copy=None):
    """np.asarray(blob): blob.data; of codes, float_data, because an array should hold numbers."""
    view = self.data
    if isinstance(view, Codes):
        if copy is False:
            raise ValueError('blob %s (%s) holds codes; its numbers are a copy: numpy.asarray(blob)'
                             % (_printable(self.name), self._type_name))
        return np.array(self.float_data, dtype=dtype)
    array = np.asarray(view, dtype=dtype)
    if copy and np.may_share_memory(array, view):
        return array.copy()
    if copy is False and not np.may_share_memory(array, view):
        raise ValueError('blob %s (%s) is converted to %s by a copy: numpy.asarray(blob, %r)'
                         % (_printable(self.name), self._type_name, array.dtype, str(array.dtype)))
    return array


def _refuse_item(self, index, value):
    raise TypeError("a list of a layer's parameters cannot be changed; write "
                    'net.params[layer][%r].data[...] = x' % (index,))


def _set_attribute(self, name, value):
    if name in ('data', 'diff'):
        raise AttributeError('blob %s: %s is a view and cannot be replaced; write blob.%s[...] = x, '
                             'and blob.%s[...] += x' % (_printable(self.name), name, name, name))
    object.__setattr__(self, name, value)


Blob.__array__ = _array
Blob.__setattr__ = _set_attribute
BlobVec.__setitem__ = _refuse_item
Blob.scale = property(_scale, doc=_scale.__doc__)
Blob.zero_point = property(_zero_point, doc=_zero_point.__doc__)
Blob.range = property(_range, doc=_range.__doc__)
Blob.float_data = property(_float_data, _set_float_data, doc=_float_data.__doc__)
Blob.float_diff = property(_float_diff, _set_float_diff, doc=_float_diff.__doc__)
