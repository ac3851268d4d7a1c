"""Net: named blobs, forward and backward by name, and batches, over the bound Net."""
import functools
import os
import warnings
from itertools import zip_longest

import numpy as np

from . import _caffe, bfloat16, names
from ._caffe import TEST, TRAIN, _printable, _shape_fault, quantizer_mode
from .codes import Codes
from .scalar_view import scalar_view


def _cached(make):
    """A property that is made once per net."""
    name = '_cached_' + make.__name__

    @functools.wraps(make)
    def read(self):
        if name not in self.__dict__:
            self.__dict__[name] = make(self)
        return self.__dict__[name]

    return property(read)


def _exclusive(method):
    """Makes a method exclusive: other threads that use the net wait until it returns."""
    @functools.wraps(method)
    def run(self, *arguments, **keywords):
        with self.exclusive():
            return method(self, *arguments, **keywords)

    return run


def _layer_index(layer_names, name):
    try:
        return list(layer_names).index(name)
    except ValueError:
        raise ValueError('the net has no layer %s%s' % (
            name, names.did_you_mean(name, layer_names))) from None


def _write(blob, view, values):
    """Writes numbers into a view of a blob's data or diff."""
    _check_fit(blob.name, np.shape(values), view.shape)
    view[...] = values


def _feed(blob, values, codes):
    """Writes an input. Numbers are converted if the blob holds codes, unless `codes` is set.

    Integers are codes of a quantized type, but numbers of a type of a user.
    """
    view = blob.data
    numbers = blob._is_custom or np.asarray(values).dtype.kind not in 'iub'
    if not codes and numbers and (isinstance(view, Codes) or blob._first_version is not None):
        blob.float_data = values
    else:
        view[...] = values


def _result(view):
    """A view as forward and backward return it.

    bfloat16, which NumPy lacks, becomes float32. A number without axes (a loss) is a copy:
    scripts append it to a list.
    """
    if view.dtype == bfloat16.dtype:
        return scalar_view(np.asarray(view).astype(np.float32))
    return view.copy() if view.ndim == 0 else view


def _output(blob, codes):
    view = blob.data
    if codes or not isinstance(view, Codes):
        return _result(view)
    return scalar_view(np.array(blob.float_data))


def _write_diff(blob, values):
    if blob._is_custom:
        blob.float_diff = values
    else:
        _write(blob, blob.diff, values)


def _diff(blob):
    return np.array(blob.float_diff) if blob._is_custom else _result(blob.diff)


def _check_names(given, wanted, what):
    unknown = [name for name in given if name not in wanted]
    missing = [name for name in wanted if name not in given]
    if unknown or missing:
        text = '%s are %s' % (what, names.listed(wanted, len(wanted)))
        for name in unknown:
            text += '; %s is not one of them%s' % (name, names.did_you_mean(name, wanted))
        if missing and (not given or len(unknown) < len(given)):
            text += '; without a value: ' + ', '.join(missing)
        raise ValueError(_printable(text))


def _check_fit(name, given, wanted):
    """Raises unless NumPy can assign an array of shape `given` to one of shape `wanted`."""
    inner = given
    while len(inner) > len(wanted) and inner[0] == 1:
        inner = inner[1:]
    pairs = zip(reversed(inner), reversed(wanted))
    if len(inner) > len(wanted) or any(have not in (1, want) for have, want in pairs):
        raise ValueError(_shape_fault(name, given, wanted))


def _check_batch(name, array, blob):
    given, wanted = np.shape(array), tuple(blob.shape)
    if len(wanted) > 0 and (len(given) == 0 or given[0] != wanted[0] or (
            len(wanted) > 1 and given == wanted[1:])):
        raise ValueError(_shape_fault(name, given, wanted))
    _check_fit(name, given, wanted)


def _check_blobs(blobs):
    """The names of blobs to return besides the outputs."""
    if blobs is None:
        return []
    if isinstance(blobs, str):
        return [blobs]
    if isinstance(blobs, (list, tuple, set, frozenset)) and all(isinstance(b, str) for b in blobs):
        return list(blobs)
    what = 'an array of shape %s' % (blobs.shape,) if isinstance(blobs, np.ndarray) else (
        'a %s' % type(blobs).__name__)
    raise TypeError('blobs is %s, not a list of names; inputs are given by name: '
                    'net.forward(data=x)' % what)


def _collect(collected, views):
    for name, view in views.items():
        if name in collected:
            collected[name].append(np.array(view, ndmin=1))


def _joined(collected, count):
    joined = {}
    for name, parts in collected.items():
        array = np.concatenate(parts) if parts else np.zeros(0, np.float32)
        # One value per batch (a loss) has nothing to trim: there may be fewer batches than items.
        joined[name] = array[:count]
    return joined


def _memory_arrays(data, labels):
    """Data and labels for a MemoryData layer: contiguous floats, labels as (N, 1, 1, 1)."""
    data = np.ascontiguousarray(data, dtype=np.float32)
    labels = np.ascontiguousarray(labels, dtype=np.float32)
    if labels.ndim == 1:
        labels = labels.reshape(-1, 1, 1, 1)
    return data, labels


_PHASES = {'TRAIN': TRAIN, 'TEST': TEST}


def _phase_number(phase):
    if isinstance(phase, str) and phase.upper() in _PHASES:
        return _PHASES[phase.upper()]
    if isinstance(phase, (str, os.PathLike)) or not hasattr(phase, '__index__'):
        raise TypeError('phase is %r, not caffe.TRAIN or caffe.TEST; weights are given by name: '
                        "caffe.Net(file, caffe.TEST, weights='x.caffemodel')" % (phase,))
    return phase


def _check_file(network_file):
    if isinstance(network_file, bytes):
        raise TypeError('the net is bytes; caffe.Net takes a file name or a NetParameter: '
                        'caffe_pb2.NetParameter.FromString(data)')
    if isinstance(network_file, str) and ('\n' in network_file or '{' in network_file) and (
            not os.path.exists(network_file)):
        start = ' '.join(network_file.split())
        raise ValueError('%r is the text of a prototxt, not the name of a file; caffe.Net takes '
                         'its message: google.protobuf.text_format.Parse(text, '
                         'caffe_pb2.NetParameter())'
                         % (start if len(start) <= 40 else start[:37] + '...'))
    if not isinstance(network_file, (str, os.PathLike)) and not hasattr(network_file,
                                                                        'SerializeToString'):
        raise TypeError('the net is %r (%s), not a file name, a NetParameter or a NetSpec'
                        % (network_file, type(network_file).__name__))


_MODES = {'passive': quantizer_mode.CAFFE_QUANT_PASSIVE,
          'observe': quantizer_mode.CAFFE_QUANT_OBSERVE,
          'pseudo': quantizer_mode.CAFFE_QUANT_PSEUDO,
          'dynamic': quantizer_mode.CAFFE_QUANT_DYNAMIC}


def _mode_of(mode, what):
    found = None
    if isinstance(mode, str):
        word = mode.lower()
        word = word[len('caffe_quant_'):] if word.startswith('caffe_quant_') else word
        found = _MODES.get(word)
    elif isinstance(mode, (quantizer_mode, int, np.integer)):
        found = {int(value): value for value in _MODES.values()}.get(int(mode))
    if found is None:
        raise ValueError("%s is %r; the values are 'passive' (CAFFE_QUANT_PASSIVE, 0), "
                         "'observe' (CAFFE_QUANT_OBSERVE, 1), 'pseudo' (CAFFE_QUANT_PSEUDO, 2) "
                         "and 'dynamic' (CAFFE_QUANT_DYNAMIC, 1000)"
                         % (what, mode))
    return found


def _code_type(value, what):
    name = value if isinstance(value, str) else {3: 'int8', 4: 'int16'}.get(int(value))
    if name not in ('int8', 'int16'):
        raise ValueError("%s is %r; the values are 'int8' and 'int16'" % (what, value))
    return name


class Quantizer:
    """The quantizer of a blob or of a layer's weights, an item of Net.quantizers."""

    def __init__(self, net, name):
        self._net = net
        self.name = name

    @property
    def mode(self):
        """The mode, a caffe.quantizer_mode; set it as Net.quant_mode.

        Setting that of the net sets all.
        """
        return self._net._quantizer_mode(self.name)

    @mode.setter
    def mode(self, value):
        self._net._set_quantizer_mode(self.name, _mode_of(value, 'mode'))

    @property
    def type(self):
        """The type of the codes of mode pseudo: 'int8' or 'int16'."""
        return self._net._quantizer_type(self.name)

    @type.setter
    def type(self, value):
        self._net._set_quantizer_type(self.name, _code_type(value, 'type'))

    @property
    def range(self):
        """The smallest and the largest value, or None."""
        return self._net.ranges.get(self.name)

    def __repr__(self):
        word = next(word for word, value in _MODES.items() if value == self.mode)
        return "Quantizer('%s', mode='%s', type='%s')" % (
            _printable(self.name), word, self.type)


class Net(_caffe.Net):
    __doc__ = _caffe.Net.__doc__
    __slots__ = ()  # those of the bound class, so that a solver's nets can be of this one

    def __init__(self, network_file, phase=None, level=None, stages=None, weights=None,
                 weights_file=None, strict=False, python_layers=True):
        names_weights = isinstance(phase, (str, os.PathLike)) and str(phase).upper() not in _PHASES
        if weights_file is None and level is not None and names_weights:
            weights_file, phase, level = phase, level, None
        if hasattr(network_file, 'to_proto'):  # a NetSpec or one of its tops
            network_file = network_file.to_proto()
        if weights_file is not None:
            warnings.warn('Net(file, weights, phase) is deprecated: use Net(file, phase, '
                          'weights=weights)', DeprecationWarning, stacklevel=2)
            weights = weights_file
        _check_file(network_file)
        phase = TEST if phase is None else _phase_number(phase)
        super().__init__(network_file, phase, 0 if level is None else level, stages, weights,
                         strict, python_layers)

    @_cached
    def blobs(self):
        """The blobs by name, a dict of caffe.Blob in the net's order.

        An unknown name is a KeyError that suggests the nearest one.
        """
        return names.NetDict(zip(self._blob_names, self._blobs), 'blob', 'net.blobs',
                             'net.blobs[%r].data[...] = x')

    @_cached
    def blob_loss_weights(self):
        """The weight of each blob in the loss, a dict of float by name; 0 if it is not a loss."""
        return names.NetDict(zip(self._blob_names, self._blob_loss_weights), 'blob',
                             'net.blob_loss_weights')

    @_cached
    def layer_dict(self):
        """The layers by name, a dict of caffe.Layer in the order of a forward."""
        return names.NetDict(zip(self._layer_names, self.layers), 'layer', 'net.layer_dict')

    @_cached
    def params(self):
        """The parameters by layer, a dict of lists of caffe.Blob: net.params['conv1'][0].

        Layers without parameters are left out.
        """
        return names.NetDict(((name, layer.blobs) for name, layer
                              in zip(self._layer_names, self.layers) if len(layer.blobs) > 0),
                             'layer with parameters', 'net.params',
                             'net.params[%r][0].data[...] = x')

    @_cached
    def _last_layer(self):
        return len(self._layer_names) - 1

    @_cached
    def inputs(self):
        """The names of the net's inputs, a list of str: the keywords of forward."""
        return [self._blob_names[i] for i in self._inputs]

    @_cached
    def outputs(self):
        """The names of the net's outputs, a list of str: the blobs that no layer reads."""
        return [self._blob_names[i] for i in self._outputs]

    @_cached
    def top_names(self):
        """The names of each layer's tops, a dict of lists of str by layer."""
        return self._names_by_layer(self._top_ids, 'net.top_names')

    @_cached
    def bottom_names(self):
        """The names of each layer's bottoms, a dict of lists of str by layer."""
        return self._names_by_layer(self._bottom_ids, 'net.bottom_names')

    def _names_by_layer(self, ids, what):
        return names.NetDict(((layer, [self._blob_names[k] for k in ids(i)])
                              for i, layer in enumerate(self._layer_names)), 'layer', what)

    @_exclusive
    def forward(self, blobs=None, start=None, end=None, codes=False, **kwargs):
        """Runs the net, or the layers from `start` to `end` (names, both included).

        Keywords are the net's inputs by name, either all or none, as arrays of the blobs' shapes.
        Returns a dict of arrays: the outputs (with `end`, that layer's tops) and the blobs named in
        `blobs`. Arrays of float, half and double are views, which the next pass overwrites; those
        of bfloat16 and of codes (quant8, quant16) are copies as float32. Numbers without axes, such
        as losses, are copies.

        An input that holds codes quantizes floats by its range; integers are codes. With `codes`
        the outputs are codes as well, and floats are refused.

        Raises ValueError for wrong shapes, TypeError for inputs without a name, KeyError for
        unknown blobs, and RuntimeError, with the layer's name, for errors in a layer.
        """
        wanted = _check_blobs(blobs)
        first = 0 if start is None else _layer_index(self._layer_names, start)
        if end is None:
            last = self._last_layer
            outputs = self.outputs
        else:
            last = _layer_index(self._layer_names, end)
            outputs = self.top_names[end]
        found = {name: self.blobs[name] for name in [*outputs, *wanted]}
        if kwargs:
            _check_names(kwargs, self.inputs, "the net's inputs")
            for name, array in kwargs.items():
                _check_batch(name, array, self.blobs[name])
            # No blob can be read between the new inputs and a forward of all layers.
            self._expect_forward(start is None and end is None)
            try:
                for name, array in kwargs.items():
                    _feed(self.blobs[name], array, codes)
            except BaseException:
                self._expect_forward(False)
                raise
        self._run_forward(first, last)
        return {name: _output(blob, codes) for name, blob in found.items()}

    @_exclusive
    def backward(self, diffs=None, start=None, end=None, **kwargs):
        """Runs backward from layer `start` down to `end` (names, both included).

        Keywords are the diffs of the outputs (with `start`, of that layer's tops). Returns a dict
        of views of the inputs' diffs (with `end`, of that layer's bottoms) and of those named in
        `diffs`; diffs of bfloat16 are copies as float32, numbers without axes are copies. Inputs
        without a gradient, such as labels, are left out; naming one in `diffs` is an error. Other
        errors are those of forward.
        """
        if start is None:
            first = self._last_layer
            tops = self.outputs
        else:
            first = _layer_index(self._layer_names, start)
            tops = self.top_names[start]
        if end is None:
            last = 0
            outputs = self.inputs
        else:
            last = _layer_index(self._layer_names, end)
            outputs = self.bottom_names[end]
        if kwargs:
            _check_names(kwargs, tops, 'the diffs to begin with')
            for name, array in kwargs.items():
                _check_batch(name, array, self.blobs[name])
                _write_diff(self.blobs[name], array)
        known = self._request_gradients(outputs, list(diffs or ()))
        self._backward(first, last)
        return {name: _diff(self.blobs[name]) for name in [*known, *(diffs or ())]}

    @_exclusive
    def forward_all(self, blobs=None, codes=False, **kwargs):
        """Runs any number of items through the net in its batches.

        Keywords are the net's inputs by name, arrays whose first axis counts the items. Returns a
        dict of copies of the outputs and of the blobs named in `blobs`, for all items; a loss has
        one value for each batch. Types, `codes` and errors are those of forward.
        """
        blobs = _check_blobs(blobs)
        collected = {name: [] for name in [*self.outputs, *blobs]}
        for batch in self._batch(kwargs):
            _collect(collected, self.forward(blobs=blobs, codes=codes, **batch))
        return _joined(collected, len(next(iter(kwargs.values()))) if kwargs else 0)

    @_exclusive
    def forward_backward_all(self, blobs=None, diffs=None, **kwargs):
        """Runs forward and backward in batches; keywords are inputs' data and outputs' diffs.

        Returns copies: a dict of the outputs and `blobs`, and a dict of the inputs' diffs and
        `diffs`. Types and errors are those of forward.
        """
        blobs = _check_blobs(blobs)
        all_blobs = {name: [] for name in [*self.outputs, *(blobs or ())]}
        all_diffs = {name: [] for name in [*self.inputs, *(diffs or ())]}
        _check_names([name for name in kwargs if name not in self.outputs],
                     self.inputs, "the net's inputs")
        forward_batches = self._batch({name: kwargs[name] for name in self.inputs})
        backward_batches = self._batch({name: kwargs[name] for name in self.outputs
                                        if name in kwargs})
        for data, diff in zip_longest(forward_batches, backward_batches, fillvalue={}):
            _collect(all_blobs, self.forward(blobs=blobs, **data))
            _collect(all_diffs, self.backward(diffs=diffs, **diff))
        count = len(next(iter(kwargs.values()))) if kwargs else 0
        if count:  # inputs without a gradient are left out
            all_diffs = {name: parts for name, parts in all_diffs.items() if parts}
        return _joined(all_blobs, count), _joined(all_diffs, count)

    def _forward(self, start, end):
        """BVLC's name for a forward of the layers from index start to end; returns the loss."""
        self._run_forward(start, end)
        return self._loss()

    def _batch(self, blobs):
        """Cuts a dict of arrays into the net's batches; the last is padded with zeros."""
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

    def set_input_arrays(self, *arguments):
        """set_input_arrays(data, labels): sets what the net's first layer, a MemoryData, reads.

        set_input_arrays(index, data, labels) names the layer by its index, as the OpenCL fork does.
        data is (items, channels, height, width), labels (items,); both become float32. RuntimeError
        unless the items are a multiple of the batch and have the layer's shape.
        """
        if len(arguments) not in (2, 3):
            raise TypeError('set_input_arrays takes (data, labels) or (index, data, labels), '
                            'not %d arguments' % len(arguments))
        index, data, labels = arguments if len(arguments) == 3 else (0, *arguments)
        return self.set_layer_input_arrays(self.layers[index], data, labels)

    def set_layer_input_arrays(self, layer, data, labels):
        """Sets what a MemoryData of net.layers reads; arrays are those of set_input_arrays."""
        return self._set_input_arrays(layer, *_memory_arrays(data, labels))

    @property
    def quant_mode(self):
        """The mode of all quantizers, a caffe.quantizer_mode.

        CAFFE_QUANT_PASSIVE uses ranges, CAFFE_QUANT_OBSERVE collects them, CAFFE_QUANT_PSEUDO
        quantizes and dequantizes in float. Set it to one of these, to its number (0, 1, 2), or to
        'passive', 'observe' or 'pseudo'. While it is observe, every forward widens the range of
        every float blob. While it is pseudo, blobs and weights have the values of codes of
        pseudo_type, and a forward of phase TRAIN moves ranges. net.save writes the ranges.
        CAFFE_QUANT_DYNAMIC is the mode of nets whose prototxt says so: layers quantize their
        bottom by the range of its values. It cannot be set for others.
        """
        return self._quant_mode

    @quant_mode.setter
    def quant_mode(self, mode):
        self._quant_mode = _mode_of(mode, 'quant_mode')

    @property
    def pseudo_type(self):
        """The type of the codes of quant_mode pseudo: 'int8' or 'int16'."""
        return self._pseudo_type

    @pseudo_type.setter
    def pseudo_type(self, value):
        self._pseudo_type = _code_type(value, 'pseudo_type')

    @property
    def quantizers(self):
        """The quantizers, a dict by name.

        A blob that layers change in place has one for each version; the names are those of ranges.
        The quantizer of a layer's weights is <layer>_blobs_0_quant.
        """
        return names.NetDict(((name, Quantizer(self, name)) for name in self._quantizer_names()),
                             'quantizer', 'net.quantizers', "net.quantizers[%r].mode = 'pseudo'")
