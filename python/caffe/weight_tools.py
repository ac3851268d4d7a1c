"""caffe.transform: rewrites a trained model by passes, also by those of users."""
from . import _caffe
from .proto import caffe_pb2
from .pycaffe import Net


def transform(net, passes='all', out=None, type='', shape=(), outputs=(), inputs=None, seed=1,
              python_layers=True, levels=0):
    """Rewrite a trained model by passes; return (model, report).

    net: a caffe.Net, or (model, weights): a prototxt, and a caffemodel or HDF5 file, or a list of
    several.
    passes: names, a list or separated by commas: strip, fold, constants, casts, duplicates,
    strides, round, round_levels, quantize_weights, and those of register_pass; all is the first
    four. `caffe help transform` explains them.
    out: writes out.prototxt and out.caffemodel, which must not be files of net; the model that is
    returned is None then. Without it the model is a caffe_pb2.NetParameter, whose layers hold their
    weights in blobs.
    type: for round 'half', 'bfloat16' or a type such as 'fp8_e4m3', for quantize_weights 'int8'
    or 'int16'.
    levels: for round_levels, the most different values of a parameter; 0: 256.
    shape: of the inputs that replace data layers.
    outputs: for strip, the blobs to compute.
    inputs: arrays by the names of inputs, for the comparison; other inputs are random numbers of
    the seed.
    python_layers: False refuses a net with a layer of type Python, as caffe.Net does.

    The report is a dict: 'passes' has the layers, the bytes and notes of each pass, 'packed' the
    sizes with gzip and zstd after round_levels, 'outputs' how far each output of both nets differs. RuntimeError for unknown passes, weights that do not
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
                    python_layers=bool(python_layers), levels=levels)
    report, bytes_of_model = _caffe._transform(model, weights, out, settings)
    if out is not None:
        return None, report
    result = caffe_pb2.NetParameter()
    result.ParseFromString(bytes_of_model)
    return result, report


def register_pass(name, function):
    """Add a pass of your own, which transform runs by its name.

    function(model, notes) gets a caffe_pb2.NetParameter, whose layers hold their parameters in
    blobs, and a list for sentences that say what it changed. It changes the model, or returns
    another one. A name may be registered again, which replaces its function; those of Cortado's
    passes are errors. An exception of the function leaves transform as it is.
    """
    if not callable(function):
        raise TypeError('register_pass: the function of pass %r is %r, which cannot be called' %
                        (name, function))

    def run(data):
        model, notes = caffe_pb2.NetParameter(), []
        model.ParseFromString(data)
        result = function(model, notes)
        if result is None:
            result = model
        if not isinstance(result, caffe_pb2.NetParameter):
            raise TypeError('pass %r returned %r; it returns a NetParameter, or None if it changed '
                            'the one that it got' % (name, result))
        return result.SerializeToString(), [str(note) for note in notes]

    _caffe._register_pass(name, run)


def _without_blobs(model):
    copy = caffe_pb2.NetParameter()
    for layer in model.layer:
        one = copy.layer.add()
        for field, value in layer.ListFields():
            if field.name == 'blobs':
                continue
            if field.label == field.LABEL_REPEATED:
                getattr(one, field.name).MergeFrom(value)
            elif field.message_type:
                getattr(one, field.name).CopyFrom(value)
            else:
                setattr(one, field.name, value)
    return copy


def find_chains(model, pattern):
    """The chains of layers that match a pattern, as lists of indices in model.layer.

    pattern: for each layer its type, '' for any, or a function of the layer that returns whether it
    fits. Each layer reads, as bottom 0, top 0 of the one before it, and nothing else reads that
    top. A layer belongs to one chain at most.
    """
    def fitting(function):
        def fits(data):
            layer = caffe_pb2.LayerParameter()
            layer.ParseFromString(data)
            return bool(function(layer))
        return fits

    entries = [entry if isinstance(entry, str) else fitting(entry) for entry in pattern]
    return _caffe._find_chains(_without_blobs(model).SerializeToString(), entries)


def remove_copy(model, index):
    """Remove a layer of a model whose top equals its bottom 0: its readers read the bottom.

    Outputs of the net keep their names. The layer stays in model.layer, without bottoms and tops,
    until the pass ends, so that indices stay the same. Returns the reason if the layer must stay,
    and '' otherwise.
    """
    why, data = _caffe._remove_copy(_without_blobs(model).SerializeToString(), index)
    changed = caffe_pb2.NetParameter()
    changed.ParseFromString(data)
    for layer, other in zip(model.layer, changed.layer):
        layer.bottom[:] = other.bottom
        layer.top[:] = other.top
    return why


def register_rewrite(name, pattern, function):
    """Add a pass that calls function(model, layers, notes) for each chain of find_chains.

    The function changes the layers of the chain, whose indices it gets, or removes them with
    remove_copy; it must not add layers, delete them or change their order.
    """
    if not callable(function):
        raise TypeError('register_rewrite: the function of pass %r is %r, which cannot be called' %
                        (name, function))

    def run(model, notes):
        count = len(model.layer)
        for layers in find_chains(model, pattern):
            function(model, layers, notes)
            if len(model.layer) != count:
                raise RuntimeError('pass %r had %d layers before a match, and %d after it; a rewrite '
                                   'only changes the layers of its match' %
                                   (name, count, len(model.layer)))

    register_pass(name, run)
