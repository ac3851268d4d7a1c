"""caffe.quantize: calibrates a float net and stores it in a narrow type."""
import json

import numpy as np

from . import _caffe
from .pycaffe import Net

TYPES = ('int8', 'int16', 'half', 'bfloat16')


def _read_batch(batch, inputs):
    """The values of the inputs by name, and the labels, of one of the caller's batches."""
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
    values = {name: np.ascontiguousarray(value, np.float32) for name, value in batch.items()}
    return values, [int(label) for label in np.asarray(labels).ravel()]


def quantize(net, batches=None, type='int8', method='auto', out=None, calibrate=None,
             held_out=None, max_drop=None, percentile=99.99, ranges=None, bias_correction=False,
             equalize=False, float_scores=True, rounding='nearest', tune_ranges=False):
    """Calibrate a float net and store it in a narrow type; return a report, a dict.

    net: a caffe.Net, or (model, weights): a prototxt or caffe_pb2.NetParameter, and a caffemodel or
    HDF5 file, or several, separated by commas.
    batches: a list of batches; None: the net's own data layers. A batch is a dict of arrays by the
    names of the inputs, an array for a Net with one input, or (either of them, labels).
    type: 'int8', 'int16', 'half' or 'bfloat16'.
    method: 'auto', 'min_max', 'percentile', 'mse', 'kl' or 'margin'; auto takes for each blob the
    one with the least squared error, and for int16 'margin'.
    out: writes out.caffemodel, out.prototxt, out.json and out.html. A file that the net was read from
    is not replaced: that is an error.
    calibrate: the number of batches for calibration, the first ones (default: half, at most 10).
    held_out: the number of batches after them, to compare with the float net (default: the rest).
    max_drop: percentage points of top-1 that may be lost: layers that hurt get wider types.
    percentile: the percentage of the values in the range, for that method.
    ranges: a dict of (smallest, largest) by the name of a blob, instead of calibration.
    bias_correction: subtract the mean error of rounded weights from biases.
    equalize: scale channels between layers with weights, so that they use the codes equally.
    float_scores: compute the layers without weights at the end of the net in float.
    rounding: 'nearest', or 'adaround': each weight gets the code above or below it, so that the
    layer's sums on the calibration data change least.
    tune_ranges: make ranges narrower or wider as long as that lowers the noise of the scores.

    The report has the content of out.json; its 'layers' begin with the one of the worst quality.
    RuntimeError for data, weights or options that do not fit.
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
    read = None
    if batches is not None:
        batches = list(batches)
        if calibrate is None:
            calibrate = min(max(len(batches) // 2, 1), 10)

        def read(index):
            return _read_batch(batches[index], inputs) if index < len(batches) else None
    elif calibrate is None:
        calibrate = 10
    if held_out is None:
        held_out = calibrate if batches is None else -1
    settings = dict(type=type, method=method, percentile=percentile, calibrate=calibrate,
                    held_out=held_out, max_drop=max_drop, ranges=dict(ranges or {}),
                    bias_correction=bias_correction, equalize=equalize,
                    float_scores=float_scores, rounding=rounding, tune_ranges=tune_ranges)
    return json.loads(_caffe._quantize(model, weights, read, settings, out))
