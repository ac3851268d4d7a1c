"""The NumPy view of a blob of codes: of quant8, quant16, or a type of a user.

A code of quant8 and quant16 stands for the number (code - zero_point) * scale, a code of a type of
a user for its to_float(code). A view of codes is an array of uint8, uint16 or uint32: it can be
read, used in arithmetic and assigned integers. NumPy would silently truncate fractions and wrap
numbers beyond the range of codes; here they are errors.
"""
import numpy as np

from ._caffe import _printable
from .scalar_view import ScalarView


def unpacked(codes, shape):
    """Codes of 4 bits from bytes of two, the first one in the lower bits."""
    pairs = np.stack([codes & 15, codes >> 4], axis=-1).ravel()
    return pairs[:np.prod(shape, dtype=int)].reshape(shape)


class Codes(np.ndarray):
    """An array of codes. Arithmetic returns plain arrays; slices are Codes of the same memory."""

    owner = 'this array'  # 'blob data (quant8)'
    blob = None  # the blob's name
    converts = "quantize floats with the blob's range"

    def __new__(cls, array, blob=None, type_name=None):
        view = np.asarray(array).view(cls)
        view.blob = blob
        if blob is not None:
            view.owner = 'blob %s (%s)' % (_printable(blob), type_name)
            if type_name not in ('quant8', 'quant16'):
                view.converts = 'convert floats'
        return view

    def __array_finalize__(self, source):
        if isinstance(source, Codes):
            self.owner, self.blob, self.converts = source.owner, source.blob, source.converts

    def checked(self, values):
        """Returns the values if they are valid codes; else raises a TypeError or ValueError."""
        if self.dtype.kind != 'u':
            return values
        given = np.asarray(values)
        if given.dtype == self.dtype or given.size == 0:
            return values
        if given.dtype.kind not in 'iub':
            raise TypeError(self._refusal('%s numbers' % given.dtype))
        most = np.iinfo(self.dtype).max
        low, high = int(given.min()), int(given.max())
        if low < 0 or high > most:
            raise ValueError(self._refusal('%d' % (low if low < 0 else high)))
        return values

    def _refusal(self, what):
        text = '%s holds codes, integers from 0 to %d, and cannot be assigned %s' % (
            self.owner, np.iinfo(self.dtype).max, what)
        if self.blob is None:
            return text + '; quantize them first'
        return text + ("; net.blobs['%s'].float_data = x and net.forward(%s=x) %s" % (
            _printable(self.blob), _printable(self.blob), self.converts))

    def __setitem__(self, key, value):
        super().__setitem__(key, self.checked(value))

    def fill(self, value):
        super().fill(self.checked(value))

    def put(self, indices, values, mode='raise'):
        super().put(indices, self.checked(values), mode)

    @property
    def flat(self):
        return _Flat(self)

    @flat.setter
    def flat(self, values):
        self.view(np.ndarray).flat = self.checked(values)

    def astype(self, dtype, *arguments, **keywords):
        return np.asarray(super().astype(dtype, *arguments, **keywords))

    def __array_ufunc__(self, function, method, *inputs, out=None, **keywords):
        plain = [value.view(np.ndarray) if isinstance(value, Codes) else value for value in inputs]
        if out is not None:
            keywords['out'] = tuple(target.view(np.ndarray) if isinstance(target, Codes) else target
                                    for target in out)
        elif method == 'at' and isinstance(inputs[0], Codes) and len(inputs) > 2:
            inputs[0].checked(inputs[2])
        try:
            result = getattr(function, method)(*plain, **keywords)
        except TypeError as error:
            for target in out or ():
                if isinstance(target, Codes) and 'cast' in str(error):
                    raise TypeError(target._refusal('results of other types')) from None
            raise
        if out is None:
            return result
        return out[0] if len(out) == 1 else out

    def __array_function__(self, function, types, arguments, keywords):
        # These functions cast silently, or raise errors that do not say what to do.
        written = {np.putmask: ('a', 2, 'values'), np.place: ('arr', 2, 'vals'),
                   np.copyto: ('dst', 1, 'src')}.get(function)
        if written is not None:
            target, place, values = written
            target = arguments[0] if arguments else keywords.get(target)
            if isinstance(target, Codes):
                target.checked(arguments[place] if len(arguments) > place else keywords[values])
        return super().__array_function__(function, types, arguments, keywords)

    def __array_wrap__(self, array, context=None, return_scalar=False):
        if array is self:
            return self
        return array[()] if array.ndim == 0 else np.asarray(array)


class _Flat:
    """The type of `codes.flat`: NumPy's iterator, with checked assignment."""

    def __init__(self, codes):
        self._codes = codes
        self._flat = codes.view(np.ndarray).flat

    def __getattr__(self, name):
        return getattr(self._flat, name)

    def __array__(self, dtype=None, copy=None):
        return np.array(self._flat, dtype=dtype)

    def __iter__(self):
        return iter(self._flat)

    def __next__(self):
        return next(self._flat)

    def __len__(self):
        return len(self._flat)

    def __getitem__(self, key):
        return self._flat[key]

    def __setitem__(self, key, value):
        self._flat[key] = self._codes.checked(value)


class ScalarCodes(Codes, ScalarView):
    """Codes without axes, which can also be indexed by [0] and [:]."""

    vector_class = Codes


def code_view(array, blob=None, type_name=None):
    """Codes of an array of unsigned integers, in the same memory, for the blob of that name."""
    kind = Codes if np.ndim(array) else ScalarCodes
    return kind(array, blob, type_name)
