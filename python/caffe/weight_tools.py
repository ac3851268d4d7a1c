"""caffe.transform: rewrites a trained model by passes."""
from . import _caffe
from .proto import caffe_pb2
from .pycaffe import Net


def transform(net, passes='all', out=None, type='', shape=(), outputs=(), inputs=None, seed=1,
              python_layers=True):
    """Rewrite a trained model by passes; return (model, report).

    net: a caffe.Net, or (model, weights): a prototxt, and a caffemodel or HDF5 file, or a list of
    several.
    passes: names, a list or separated by commas: strip, fold, constants, casts, round and
    quantize_weights; all is the first four. `caffe help transform` explains them.
    out: writes out.prototxt and out.caffemodel, which must not be files of net; the model that is
    returned is None then. Without it the model is a caffe_pb2.NetParameter, whose layers hold their
    weights in blobs.
    type: for round 'half', 'bfloat16' or a type such as 'fp8_e4m3', for quantize_weights 'int8'
    or 'int16'.
    shape: of the inputs that replace data layers.
    outputs: for strip, the blobs to compute.
    inputs: arrays by the names of inputs, for the comparison; other inputs are random numbers of
    the seed.
    python_layers: False refuses a net with a layer of type Python, as caffe.Net does.

    The report is a dict: 'passes' has the layers, the bytes and notes of each pass, 'outputs' how
    far each output of both nets differs. RuntimeError for unknown passes, weights that do not
    fit, and files that cannot be read or written.
    """
    if isinstance(net, Net):
        model, weights = net, None
    elif isinstance(net, (tuple, list)) and len(net) == 2:
        model, weights = net
    else:
        raise TypeError('transform needs a caffe.Net or (model, weights), not %r' % (net,))
    if isinstance(passes, str):
        passes = [name for name in passes.split(',') if name]
    settings = dict(passes=list(passes), type=type, shape=[int(extent) for extent in shape],
                    outputs=list(outputs), inputs=dict(inputs or {}), seed=seed,
                    python_layers=bool(python_layers))
    report, bytes_of_model = _caffe._transform(model, weights, out, settings)
    if out is not None:
        return None, report
    result = caffe_pb2.NetParameter()
    result.ParseFromString(bytes_of_model)
    return result, report
