"""caffe.quantize: calibrates a float net and stores it in a narrow type.

Its steps can be called one by one:

    net = caffe.calibration.float_net(('deploy.prototxt', 'w.caffemodel'))
    observed = caffe.calibration.observe(net, batches)
    ranges = caffe.calibration.ranges(observed, type='int8')
    ranges['score'] = (-8, 8)
    weights = caffe.calibration.weights(observed, type='int8')
    typed = caffe.calibration.typed_net(ranges, weights)
    accuracy = caffe.calibration.accuracy(typed, other_batches)
    report = caffe.calibration.report(accuracy, out='deploy_int8')
"""
import json
import operator

import numpy as np

from . import _caffe
from .proto import caffe_pb2
from .pycaffe import Net

TYPES = ('int8', 'int16', 'half', 'bfloat16')
SCALES = ('any', 'power_of_two')
ROUNDINGS = ('nearest', 'adaround')


def _read_batch(batch, inputs):
    """Copies of the inputs' values by name, and of the labels, of one of the caller's batches.

    A label is -1 where it is None.
    """
    labels = ()
    if isinstance(batch, tuple):
        if len(batch) != 2:
            raise TypeError('a batch is a tuple of %d; give (data, labels)' % len(batch))
        batch, labels = batch
    if not isinstance(batch, dict):
        if inputs is None or len(inputs) != 1:
            raise TypeError('a batch is %s; give a dict of arrays by the names of the inputs'
                            % type(batch).__name__)
        batch = {inputs[0]: batch}
    values = {name: np.array(value, np.float32, order='C') for name, value in batch.items()}
    labels = np.asarray(() if labels is None else labels)
    if labels.dtype == object:
        labels = np.vectorize(lambda label: -1 if label is None else label, otypes=[float])(labels)
    return values, np.array(labels, np.float32, order='C')


def _listed(batches, inputs):
    """The batches as a list; those of an iterator are copied, because it may reuse its arrays."""
    if isinstance(batches, dict):
        raise TypeError('batches is a dict; give a list of such batches')
    if not isinstance(batches, (list, tuple)):
        batches = [_read_batch(batch, inputs) for batch in batches]
    return batches


def _reader(batches, inputs):
    """The function that the bindings call with the number of a batch; None is the end."""
    def read(index):
        return _read_batch(batches[index], inputs) if index < len(batches) else None
    return read


def _pair(blob, given):
    """The range of a blob as two numbers."""
    try:
        low, high = (float(number) for number in given)
    except (TypeError, ValueError):
        raise TypeError("ranges['%s'] is %r, not a pair of numbers: (smallest, largest)"
                        % (blob, given)) from None
    return low, high


def _count(name, value):
    """A positive whole number."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError('%s is %r, not a whole number' % (name, value)) from None
    if number <= 0:
        raise ValueError('%s is %d; it must be positive' % (name, number))
    return number


def _number(name, value):
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError('%s is %r, not a number' % (name, value)) from None


def _check_type(type):
    if type not in TYPES:
        raise ValueError('type is %r; the types are %s' % (type, ', '.join(TYPES)))


def _check_rounding(rounding):
    if rounding not in ROUNDINGS:
        raise ValueError('rounding is %r; the values are %r and %r' % ((rounding,) + ROUNDINGS))


def _check_text(name, value):
    if value is not None and not isinstance(value, str):
        raise TypeError('%s is %r, not a str' % (name, value))


def _source(net, function):
    """A net, or a model and its weights, as two objects for the bindings."""
    if isinstance(net, Net):
        return net, None
    if not isinstance(net, (tuple, list)) or len(net) != 2:
        raise TypeError('%s needs a caffe.Net or (model, weights), not %r' % (function, net))
    return net


def quantize(net, batches=None, type='int8', method='auto', out=None, calibrate=None,
             held_out=None, max_drop=None, percentile=99.99, ranges=None, bias_correction=False,
             equalize=False, float_scores=True, rounding='nearest', tune_ranges=False, scores=None,
             python_layers=True, scales='any'):
    """Calibrate a float net and store it in a narrow type; return a report, a dict.

    net: a caffe.Net, or (model, weights): a prototxt or caffe_pb2.NetParameter, and a
    caffemodel or HDF5 file, or a list of several.
    batches: a list of batches, or what iterates over them and may reuse its arrays; None: the
    net's own data layers, once around. A batch is a dict of arrays by the names of the inputs,
    an array for a Net with one input, or (either of them, labels). An array has the input's
    shape, or fewer items on axis 0. There is a label for each item, or for each position
    (pixel, time step) of the scores, in that order; -1 or None: it is unknown.
    type: 'int8', 'int16', 'half' or 'bfloat16'.
    method: 'auto', 'min_max', 'percentile', 'mse', 'kl', 'margin' or 'dynamic'; auto takes for
    each blob the one with the least squared error, and for int16 'margin'. dynamic, for int8,
    needs no calibration data: layers quantize their bottom by the range of its values in each
    forward. All batches then compare; without batches and data layers nothing is compared.
    out: writes out.caffemodel, out.prototxt, out.json and out.html. A file that the net was
    read from is not replaced: that is an error.
    calibrate: the number of batches for calibration, the first ones (default: half, at most
    10).
    held_out: the number of batches after them, to compare with the float net (default, or
    -1: the rest; of data layers at most as many).
    max_drop: percentage points of top-1 that may be lost: layers that hurt get wider types.
    percentile: the percentage of the values in the range, for that method.
    ranges: a dict of (smallest, largest) by the name of a blob, instead of calibration.
    bias_correction: subtract the mean error of rounded weights from biases.
    equalize: scale channels between layers with weights, so that they use the codes equally.
    float_scores: compute the layers without weights at the end of the net in float.
    rounding: 'nearest', or 'adaround': each weight gets the code above or below it, so that the
    layer's sums on the calibration data change least.
    tune_ranges: make ranges narrower or wider as long as that lowers the noise of the scores.
    scores: the name of the blob with the scores of classes, if several heads have some. By
    default what the last loss or Accuracy with labels of classes reads; without one, the last
    output of a Softmax, or any output with several elements along axis 1. The axis of the
    classes is that of the loss, the Accuracy or the Softmax.
    scales: 'any', or 'power_of_two': ranges are widened until their scale is a power of two, and
    so are the scales of weights that are stored as codes.
    python_layers: False refuses a net with a layer of type Python, as caffe.Net does.

    The report has the content of out.json; its 'layers' begin with the one of the worst
    quality. 'float_top1', 'quantized_top1' and 'agreement' are percentages of 'labels' and of
    'positions'; 'resolution' is how many percentage points one of them is; 'no_top1' says why
    there is no top-1. RuntimeError for data, weights or options that do not fit,
    TypeError and ValueError for options of another kind.
    """
    _check_type(type)
    _check_rounding(rounding)
    model, model_weights = _source(net, 'quantize')
    inputs = None if model_weights is not None else net.inputs
    if ranges is not None and not isinstance(ranges, dict):
        raise TypeError('ranges is %r, not a dict' % (ranges,))
    _check_text('scores', scores)
    if scales not in SCALES:
        raise ValueError('scales is %r; the values are %r and %r' % ((scales,) + SCALES))
    batches = None if batches is None else _listed(batches, inputs)
    ranges = {blob: _pair(blob, given) for blob, given in (ranges or {}).items()}
    percentile = _number('percentile', percentile)
    max_drop = None if max_drop is None else _number('max_drop', max_drop)
    calibrate = None if calibrate is None else _count('calibrate', calibrate)
    held_out = -1 if held_out in (None, -1) else _count('held_out', held_out)
    default_number = calibrate is None
    if method == 'dynamic' and not default_number:
        raise ValueError('calibrate is %r, but method dynamic has no calibration data; leave it out'
                         % calibrate)
    if default_number:
        calibrate = 10 if batches is None else min(max(len(batches) // 2, 1), 10)
    settings = dict(type=type, method=method, percentile=percentile, calibrate=calibrate,
                    held_out=held_out, max_drop=max_drop, ranges=ranges,
                    bias_correction=bias_correction, equalize=equalize,
                    float_scores=float_scores, rounding=rounding, tune_ranges=tune_ranges,
                    scores=scores or '', batches=len(batches or ()), default_number=default_number,
                    python_layers=bool(python_layers), scales=scales)
    read = None if batches is None else _reader(batches, inputs)
    return json.loads(_caffe._quantize(model, model_weights, read, settings, out))


class FloatNet:
    """A net in float that reads its data from inputs: what float_net returns.

    inputs: the names of its inputs, a list. Data layers of the model are inputs, too.
    scores: the name of the blob with the scores of classes, or None.
    """

    def __init__(self, handle):
        self._handle = handle
        self.inputs = handle.inputs
        self.scores = handle.scores or None


class Observed:
    """What a FloatNet has on batches: what observe returns.

    net: the FloatNet. batches: the list of batches. items: how many items they have.
    ranges: the smallest and the largest value, a dict of pairs by the names of blobs, as of
    caffe.Net.ranges. histograms: (counts, edges) by the same names, as of caffe.Net.histograms.
    """

    def __init__(self, handle, net, batches):
        self._handle, self.net, self.batches = handle, net, batches
        self.items = handle.items
        self.ranges = {blob: entry[:2] for blob, entry in handle.ranges.items()}
        self.histograms = handle.histograms


class Ranges(dict):
    """Pairs (smallest, largest) by the names of blobs: what ranges returns. Change them freely.

    type, method: as given to ranges. observed: the Observed that they were chosen from.
    """

    def __init__(self, chosen, observed, type, method):
        super().__init__((blob, entry[:2]) for blob, entry in chosen.items())
        self._chosen = chosen
        self.observed, self.type, self.method = observed, type, method

    @property
    def methods(self):
        """How each range was chosen, a dict by the names of blobs.

        The name of a method; 'tied' for that of the Concat that reads the blob; 'given' if it is
        not the chosen one any more.
        """
        return {blob: self._chosen[blob][2] if self._chosen.get(blob, ())[:2] == _pair(blob, given)
                else 'given' for blob, given in self.items()}


class Weights:
    """Float weights that are ready for a type: what weights returns.

    type: as given to weights. observed: the Observed that they were made with.
    gains: by how many dB adaround lowers the error of a layer's sums, a dict by the names of the
    layers that have other codes than the nearest. corrected_biases: the number of layers with
    changed biases.
    """

    def __init__(self, handle, observed, type):
        self._handle, self.observed, self.type = handle, observed, type
        self.gains = handle.gains()
        self.corrected_biases = handle.corrected_biases


class TypedNet:
    """A net in a narrow type: what typed_net returns.

    model: its layers with their types, a caffe_pb2.NetParameter. weights: packed weights and
    ranges, a caffe_pb2.NetParameter. ranges, float_weights: what it was made of, a Ranges and a
    Weights.
    """

    def __init__(self, handle, ranges, weights):
        self._handle, self.ranges, self.float_weights = handle, ranges, weights

    @property
    def model(self):
        """The layers with their types, a caffe_pb2.NetParameter; that of out.prototxt."""
        return caffe_pb2.NetParameter.FromString(self._handle.model())

    @property
    def weights(self):
        """Packed weights and ranges, a caffe_pb2.NetParameter; that of out.caffemodel."""
        return caffe_pb2.NetParameter.FromString(self._handle.weights())


class Accuracy:
    """A TypedNet beside its FloatNet on batches: what accuracy returns.

    typed: the TypedNet. items: how many items were compared. positions: an item is one, or has
    one for each pixel or time step. labels: those of the positions that are known.
    agreement: the percentage of the positions with the same class, or None without scores.
    top1, float_top1: percentages of the labels that both nets find, or None without labels.
    snr: signal to noise in dB against the float net, a dict by the names of blobs; infinite if
    they are equal, NaN if there is nothing to compare.
    """

    def __init__(self, handle, typed):
        self._handle, self.typed = handle, typed
        self.items, self.positions, self.labels = handle.items, handle.positions, handle.labels
        self.agreement, self.snr = handle.agreement, handle.snr()
        self.top1, self.float_top1 = handle.top1, handle.float_top1


def _need(step, name, value, kind, maker):
    """Checks that a value is that of an earlier step."""
    if not isinstance(value, kind):
        raise TypeError('%s: %s is %r; give what caffe.calibration.%s returns'
                        % (step, name, value, maker))


def _given_batches(step, batches, inputs):
    batches = _listed(batches, inputs)
    if not batches:
        raise ValueError('%s: batches is empty; give at least one batch' % step)
    return batches


def float_net(net, scores=None, python_layers=True):
    """Make the float net that the other steps run; return a FloatNet.

    net: a caffe.Net, or (model, weights), as for caffe.quantize. The types of its layers are
    those of the quantized net; this net computes in float on the thread's device.
    scores: the name of the blob with the scores of classes, as for caffe.quantize.
    python_layers: False refuses a net with a layer of type Python, as caffe.Net does.

    RuntimeError if a layer has no weights, or a file cannot be read.
    """
    _check_text('scores', scores)
    model, model_weights = _source(net, 'float_net')
    return FloatNet(_caffe._float_net(model, model_weights, scores or '', bool(python_layers)))


def observe(net, batches):
    """Run a FloatNet on the data for calibration; return an Observed.

    batches: a list of batches, or what iterates over them, as for caffe.quantize; a batch is a
    dict of arrays by the names of net.inputs, or one array, or (either of them, labels). The
    list is read again by weights.

    RuntimeError if a batch does not fit the net.
    """
    _need('observe', 'net', net, FloatNet, 'float_net')
    batches = _given_batches('observe', batches, net.inputs)
    handle = _caffe._observe(net._handle, _reader(batches, net.inputs), len(batches))
    return Observed(handle, net, batches)


def ranges(observed, type='int8', method='auto', percentile=99.99):
    """Choose the range of each blob from its histogram; return a Ranges, a dict of pairs.

    type, method, percentile: as for caffe.quantize. The Ranges of 'half' and 'bfloat16' is
    empty.

    RuntimeError for an unknown method or a wrong percentile.
    """
    _need('ranges', 'observed', observed, Observed, 'observe')
    _check_type(type)
    chosen = _caffe._ranges(observed.net._handle, observed._handle, type, method,
                            _number('percentile', percentile))
    return Ranges(chosen, observed, type, method)


def weights(observed, type='int8', rounding='nearest', bias_correction=False):
    """Prepare the weights for a type; return a Weights.

    type, rounding, bias_correction: as for caffe.quantize. Rounding by 'adaround' and the
    correction run the float net on observed.batches again.
    """
    _need('weights', 'observed', observed, Observed, 'observe')
    _check_type(type)
    _check_rounding(rounding)
    net = observed.net
    handle = _caffe._weights(net._handle, observed._handle, _reader(observed.batches, net.inputs),
                             type, rounding == 'adaround', bool(bias_correction))
    return Weights(handle, observed, type)


def typed_net(ranges, weights, float_scores=True):
    """Make the net in the type of its ranges and weights; return a TypedNet.

    ranges: a Ranges, whose items may have been changed. weights: a Weights of the same type and
    Observed. float_scores: as for caffe.quantize.

    A blob that only a Concat reads gets the range of the Concat's top, unless its range was
    given. ValueError if ranges and weights do not belong together, or a blob has no range;
    TypeError for a range that is not a pair of numbers; RuntimeError for one that is not finite or
    not in order, and for the name of a blob that the net does not have.
    """
    _need('typed_net', 'ranges', ranges, Ranges, 'ranges')
    _need('typed_net', 'weights', weights, Weights, 'weights')
    if ranges.type != weights.type:
        raise ValueError('typed_net: the ranges are for %s, but the weights for %s; make both with '
                         'one type' % (ranges.type, weights.type))
    observed = ranges.observed
    if observed is not weights.observed:
        raise ValueError('typed_net: the ranges and the weights are of two calls of observe; make '
                         'both from one Observed')
    for blob in ranges._chosen:
        if blob not in ranges:
            raise ValueError("typed_net: ranges has no range of blob '%s'; give one, such as "
                             "ranges['%s'] = (%.4g, %.4g)"
                             % ((blob, blob) + observed.ranges[blob]))
    methods = ranges.methods
    entries = {blob: _pair(blob, given) + (methods[blob],) for blob, given in ranges.items()}
    handle = _caffe._typed_net(observed.net._handle, observed._handle, entries, weights._handle,
                               _reader(observed.batches, observed.net.inputs), ranges.type,
                               bool(float_scores))
    return TypedNet(handle, ranges, weights)


def accuracy(typed, batches):
    """Compare a TypedNet with its FloatNet on other data; return an Accuracy.

    batches: as for observe, but not the same ones.

    RuntimeError if a batch does not fit the net, or if labels do not fit its scores.
    """
    _need('accuracy', 'typed', typed, TypedNet, 'typed_net')
    inputs = typed.ranges.observed.net.inputs
    batches = _given_batches('accuracy', batches, inputs)
    handle = _caffe._measure(typed._handle, _reader(batches, inputs), len(batches))
    return Accuracy(handle, typed)


def report(accuracy, out=None):
    """Return the report of caffe.quantize, a dict, and write its files.

    out: writes out.caffemodel, out.prototxt, out.json and out.html, as caffe.quantize does.

    RuntimeError if a file cannot be written, or if it is one that the net was read from.
    """
    _need('report', 'accuracy', accuracy, Accuracy, 'accuracy')
    typed = accuracy.typed
    return json.loads(_caffe._report(typed._handle, accuracy._handle, typed.ranges.method, out))
