"""What the bound Net gains in Python: named blobs, forward and backward by name, batches."""
import functools
from collections import OrderedDict
from itertools import zip_longest

import numpy as np

from . import bfloat16
from ._caffe import Blob, Net
from .proto import caffe_pb2


def _cached(make):
    """A property that is made once per net."""
    name = '_cached_' + make.__name__

    def read(self):
        if name not in self.__dict__:
            self.__dict__[name] = make(self)
        return self.__dict__[name]

    return property(read, doc=make.__doc__)


def _exclusive(method):
    """The method from its first line to its last while other threads that run the net wait."""
    @functools.wraps(method)
    def run(self, *arguments, **keywords):
        with self.exclusive():
            return method(self, *arguments, **keywords)

    return run


def _blobs(self):
    """The blobs by name, in the order in which the net makes them."""
    return OrderedDict(zip(self._blob_names, self._blobs))


def _blob_loss_weights(self):
    """The weight of each blob in the loss, by name."""
    return OrderedDict(zip(self._blob_names, self._blob_loss_weights))


def _layer_dict(self):
    """The layers by name."""
    return OrderedDict(zip(self._layer_names, self.layers))


def _params(self):
    """The parameter blobs by layer; layers without any are left out."""
    return OrderedDict((name, layer.blobs) for name, layer in zip(self._layer_names, self.layers)
                       if len(layer.blobs) > 0)


def _inputs(self):
    """The names of the net's inputs."""
    return [self._blob_names[i] for i in self._inputs]


def _outputs(self):
    """The names of the net's outputs: the blobs that no layer reads."""
    return [self._blob_names[i] for i in self._outputs]


def _top_names(self):
    """The names of each layer's tops."""
    return OrderedDict((layer, [self._blob_names[k] for k in self._top_ids(i)])
                       for i, layer in enumerate(self._layer_names))


def _bottom_names(self):
    """The names of each layer's bottoms."""
    return OrderedDict((layer, [self._blob_names[k] for k in self._bottom_ids(i)])
                       for i, layer in enumerate(self._layer_names))


def _layer_index(self, name):
    try:
        return list(self._layer_names).index(name)
    except ValueError:
        raise ValueError('the net has no layer %s' % name) from None


def _is_bfloat16(blob):
    data_type = getattr(blob, 'data_type', None)
    return data_type is not None and int(data_type) == caffe_pb2.CAFFE_BFLOAT16


def _floats(blob, values):
    if _is_bfloat16(blob):
        return bfloat16.to_float(values)
    if values.dtype.kind != 'f':
        raise TypeError('blob %s holds codes of a quantized type' % blob.name)
    return np.array(values, dtype=np.float32)


def _float_data(self):
    """A copy of the values as float32, whatever float type the blob has."""
    return _floats(self, self.data)


def _float_diff(self):
    """A copy of the gradient as float32, whatever float type the blob has."""
    return _floats(self, self.diff)


def _check_codes(blob, view, values):
    if view.dtype.kind == 'f' or _is_bfloat16(blob) or values.dtype == view.dtype:
        return
    most = np.iinfo(view.dtype).max
    numbers = np.asarray(values, np.float64)
    if not np.all((numbers >= 0) & (numbers <= most) & (numbers == np.floor(numbers))):
        raise ValueError(
            'blob %s holds codes of a quantized type, integers from 0 to %d, and these are not: '
            "quantize them with the blob's range (the caffemodel has it), or let its layer have "
            'top_data_type: CAFFE_FLOAT, and the net quantizes' % (blob.name, most))


def _write(blob, view, values):
    """Numbers into a blob's data or diff. Codes (uint16) for bfloat16 are taken as they are."""
    values = np.asarray(values)
    _check_codes(blob, view, values)
    if _is_bfloat16(blob) and values.dtype != np.uint16:
        values = bfloat16.from_float(values)
    view[...] = values


def _check_names(given, wanted, what):
    if set(given) != set(wanted):
        raise ValueError('%s are %s, not %s' % (what, ', '.join(sorted(wanted)) or 'none',
                                                ', '.join(sorted(given)) or 'none'))


def _check_batch(name, array, blob):
    if len(blob.shape) > 0 and (np.ndim(array) == 0 or np.shape(array)[0] != blob.shape[0]):
        raise ValueError('%s: shape %s is not one batch of %d'
                         % (name, np.shape(array), blob.shape[0]))


@_exclusive
def _forward(self, blobs=None, start=None, end=None, **kwargs):
    """Runs the net, or the layers from `start` to `end`, both by name and both included.

    Keywords are the net's inputs, all of them or none. Gives a dict of views of the outputs (with
    `end`, of that layer's tops) and of the blobs named in `blobs`; the next pass overwrites them.
    """
    first = 0 if start is None else _layer_index(self, start)
    if end is None:
        last = len(self.layers) - 1
        outputs = self.outputs
    else:
        last = _layer_index(self, end)
        outputs = self.top_names[end]
    if kwargs:
        _check_names(kwargs, self.inputs, "the net's inputs")
        for name, array in kwargs.items():
            _check_batch(name, array, self.blobs[name])
            _write(self.blobs[name], self.blobs[name].data, array)
    self._forward(first, last)
    return {name: self.blobs[name].data for name in [*outputs, *(blobs or ())]}


@_exclusive
def _backward(self, diffs=None, start=None, end=None, **kwargs):
    """Runs backward from layer `start` down to `end`, both by name and both included.

    Keywords are the diffs of the outputs (with `start`, of that layer's tops). Gives a dict of
    views of the inputs' diffs (with `end`, of that layer's bottoms) and of those named in `diffs`.
    """
    if start is None:
        first = len(self.layers) - 1
        tops = self.outputs
    else:
        first = _layer_index(self, start)
        tops = self.top_names[start]
    if end is None:
        last = 0
        outputs = self.inputs
    else:
        last = _layer_index(self, end)
        outputs = self.bottom_names[end]
    if kwargs:
        _check_names(kwargs, tops, 'the diffs to begin with')
        for name, array in kwargs.items():
            _check_batch(name, array, self.blobs[name])
            _write(self.blobs[name], self.blobs[name].diff, array)
    self._backward(first, last)
    return {name: self.blobs[name].diff for name in [*outputs, *(diffs or ())]}


def _batch(self, blobs):
    """Cuts a dict of arrays into the net's batches; the last is filled up with zeros."""
    if not blobs:
        return
    count = len(next(iter(blobs.values())))
    size = self.blobs[next(iter(blobs))].shape[0]
    for name, array in blobs.items():
        if len(array) != count:
            raise ValueError('%s has %d items, others %d' % (name, len(array), count))
    for begin in range(0, count, size):
        batch = {}
        for name, array in blobs.items():
            part = np.asarray(array[begin:begin + size])
            missing = size - len(part)
            if missing > 0:
                part = np.concatenate([part, np.zeros((missing,) + part.shape[1:], part.dtype)])
            batch[name] = part
        yield batch


def _collect(collected, views):
    for name, view in views.items():
        if name in collected:
            collected[name].append(np.array(view, ndmin=1))


def _joined(collected, count):
    joined = {}
    for name, parts in collected.items():
        array = np.concatenate(parts) if parts else np.zeros(0, np.float32)
        # One value per batch (a loss) has nothing to trim: its batches may be fewer than the items.
        joined[name] = array[:count]
    return joined


@_exclusive
def _forward_all(self, blobs=None, **kwargs):
    """Runs any number of items through the net in its batches; gives copies of all outputs."""
    collected = {name: [] for name in [*self.outputs, *(blobs or ())]}
    for batch in self._batch(kwargs):
        _collect(collected, self.forward(blobs=blobs, **batch))
    return _joined(collected, len(next(iter(kwargs.values()))) if kwargs else 0)


@_exclusive
def _forward_backward_all(self, blobs=None, diffs=None, **kwargs):
    """Runs forward and backward in batches; keywords are inputs' data and outputs' diffs.

    Gives copies: a dict of the outputs and `blobs`, and a dict of the inputs' diffs and `diffs`.
    """
    all_blobs = {name: [] for name in [*self.outputs, *(blobs or ())]}
    all_diffs = {name: [] for name in [*self.inputs, *(diffs or ())]}
    _check_names([name for name in kwargs if name not in self.outputs],
                 self.inputs, "the net's inputs")
    forward_batches = self._batch({name: kwargs[name] for name in self.inputs})
    backward_batches = self._batch({name: kwargs[name] for name in self.outputs if name in kwargs})
    for data, diff in zip_longest(forward_batches, backward_batches, fillvalue={}):
        _collect(all_blobs, self.forward(blobs=blobs, **data))
        _collect(all_diffs, self.backward(diffs=diffs, **diff))
    count = len(next(iter(kwargs.values()))) if kwargs else 0
    return _joined(all_blobs, count), _joined(all_diffs, count)


def _memory_arrays(data, labels):
    """Data and labels as a MemoryData layer takes them: contiguous floats, labels as (N, 1, 1, 1)."""
    data = np.ascontiguousarray(data, dtype=np.float32)
    labels = np.ascontiguousarray(labels, dtype=np.float32)
    if labels.ndim == 1:
        labels = labels.reshape(-1, 1, 1, 1)
    return data, labels


def _set_input_arrays(self, *arguments):
    """set_input_arrays(data, labels): what the net's first layer, a MemoryData, reads from now on.

    set_input_arrays(index, data, labels) names the layer by its index, as the OpenCL fork does.
    """
    if len(arguments) not in (2, 3):
        raise TypeError('set_input_arrays takes (data, labels) or (index, data, labels), not %d '
                        'arguments' % len(arguments))
    index, data, labels = arguments if len(arguments) == 3 else (0, *arguments)
    return self.set_layer_input_arrays(self.layers[index], data, labels)


def _set_layer_input_arrays(self, layer, data, labels):
    """What a MemoryData layer reads from now on. The arrays must have a multiple of its batch."""
    return self._set_input_arrays(layer, *_memory_arrays(data, labels))


Blob.float_data = property(_float_data, doc=_float_data.__doc__)
Blob.float_diff = property(_float_diff, doc=_float_diff.__doc__)
Net.blobs = _cached(_blobs)
Net.blob_loss_weights = _cached(_blob_loss_weights)
Net.layer_dict = _cached(_layer_dict)
Net.params = _cached(_params)
Net.inputs = _cached(_inputs)
Net.outputs = _cached(_outputs)
Net.top_names = _cached(_top_names)
Net.bottom_names = _cached(_bottom_names)
Net.forward = _forward
Net.backward = _backward
Net.forward_all = _forward_all
Net.forward_backward_all = _forward_backward_all
Net.set_input_arrays = _set_input_arrays
Net.set_layer_input_arrays = _set_layer_input_arrays
Net._batch = _batch
