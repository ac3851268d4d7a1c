"""caffe.quantize: calibrates a float net and stores it in a narrow type."""
import json
import operator

import numpy as np

from . import _caffe
from .pycaffe import Net

TYPES = ('int8', 'int16', 'half', 'bfloat16')


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


def quantize(net, batches=None, type='int8', method='auto', out=None, calibrate=None,
             held_out=None, max_drop=None, percentile=99.99, ranges=None, bias_correction=False,
             equalize=False, float_scores=True, rounding='nearest', tune_ranges=False, scores=None,
             python_layers=True):
    """Calibrate a float net and store it in a narrow type; return a report, a dict.

    net: a caffe.Net, or (model, weights): a prototxt or caffe_pb2.NetParameter, and a
    caffemodel or HDF5 file, or a list of several.
    batches: a list of batches, or what iterates over them and may reuse its arrays; None: the
    net's own data layers, once around. A batch is a dict of arrays by the names of the inputs,
    an array for a Net with one input, or (either of them, labels). An array has the input's
    shape, or fewer items on axis 0. There is a label for each item, or for each position
    (pixel, time step) of the scores, in that order; -1 or None: it is unknown.
    type: 'int8', 'int16', 'half' or 'bfloat16'.
    method: 'auto', 'min_max', 'percentile', 'mse', 'kl' or 'margin'; auto takes for each blob
    the one with the least squared error, and for int16 'margin'.
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
    python_layers: False refuses a net with a layer of type Python, as caffe.Net does.

    The report has the content of out.json; its 'layers' begin with the one of the worst
    quality. 'float_top1', 'quantized_top1' and 'agreement' are percentages of 'labels' and of
    'positions'; 'resolution' is how many percentage points one of them is; 'no_top1' says why
    there is no top-1. RuntimeError for data, weights or options that do not fit,
    TypeError and ValueError for options of another kind.
    """
    if type not in TYPES:
        raise ValueError('type is %r; the types are %s' % (type, ', '.join(TYPES)))
    if rounding not in ('nearest', 'adaround'):
        raise ValueError("rounding is %r; the values are 'nearest' and 'adaround'" % (rounding,))
    if isinstance(net, Net):
        model, weights, inputs = net, None, net.inputs
    else:
        if not isinstance(net, (tuple, list)) or len(net) != 2:
            raise TypeError('quantize needs a caffe.Net or (model, weights), not %r' % (net,))
        (model, weights), inputs = net, None
    for name, value, kind in (('ranges', ranges, dict), ('scores', scores, str)):
        if value is not None and not isinstance(value, kind):
            raise TypeError('%s is %r, not a %s' % (name, value, kind.__name__))
    if isinstance(batches, dict):
        raise TypeError('batches is a dict; give a list of such batches')
    ranges = {blob: _pair(blob, given) for blob, given in (ranges or {}).items()}
    percentile = _number('percentile', percentile)
    max_drop = None if max_drop is None else _number('max_drop', max_drop)
    calibrate = None if calibrate is None else _count('calibrate', calibrate)
    held_out = -1 if held_out in (None, -1) else _count('held_out', held_out)
    read, count, default_number = None, 0, calibrate is None
    if batches is not None:
        if not isinstance(batches, (list, tuple)):  # it may reuse its arrays
            batches = [_read_batch(batch, inputs) for batch in batches]
        count = len(batches)
        if calibrate is None:
            calibrate = min(max(count // 2, 1), 10)

        def read(index):
            return _read_batch(batches[index], inputs) if index < count else None
    elif calibrate is None:
        calibrate = 10
    settings = dict(type=type, method=method, percentile=percentile, calibrate=calibrate,
                    held_out=held_out, max_drop=max_drop, ranges=ranges,
                    bias_correction=bias_correction, equalize=equalize,
                    float_scores=float_scores, rounding=rounding, tune_ranges=tune_ranges,
                    scores=scores or '', batches=count, default_number=default_number,
                    python_layers=bool(python_layers))
    return json.loads(_caffe._quantize(model, weights, read, settings, out))
