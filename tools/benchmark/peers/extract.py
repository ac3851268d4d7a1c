"""Converts a caffe.Net to a Graph: layers after upgrades and splits, weights as arrays.

Accuracy and losses are left out, and so are the Splits. BatchNorm and the Scale behind it become
one node, as other frameworks define batch normalisation. A mixture of experts is a node with graphs
of its nested nets.
"""
import dataclasses

import numpy as np

from peers.graph import Graph, Node


def _pair(values, height, width, default):
    """(rows, columns) of a field that is given once, for each axis, or as two fields."""
    if height or width:
        return [height, width]
    values = list(values) if hasattr(values, '__len__') else [values] if values else []
    if not values:
        return [default, default]
    return [int(values[0]), int(values[-1])]


def _require(condition, layer, text):
    if not condition:
        raise ValueError('%s (%s): %s' % (layer.name, layer.type, text))


def _convolution(layer, shapes, arrays):
    p = layer.convolution_param
    _require(p.axis == 1 and p.fuse_type == 0, layer, 'only the plain form with axis 1')
    attributes = dict(
        channels=p.num_output, kernel=_pair(p.kernel_size, p.kernel_h, p.kernel_w, 1),
        stride=_pair(p.stride, p.stride_h, p.stride_w, 1),
        pad=_pair(p.pad, p.pad_h, p.pad_w, 0), dilation=_pair(p.dilation, 0, 0, 1), group=p.group)
    return 'convolution', attributes, arrays


def _pooling(layer, shapes, arrays):
    p = layer.pooling_param
    _require(p.pool in (p.MAX, p.AVE) and len(layer.top) == 1, layer,
             'only MAX and AVE with one top')
    round_up = p.ceil_mode if p.HasField('ceil_mode') else p.round_mode == p.CEIL
    kernel = (list(shapes[0][2:]) if p.global_pooling else
              _pair(p.kernel_size, p.kernel_h, p.kernel_w, 1))
    attributes = dict(method='max' if p.pool == p.MAX else 'average', kernel=kernel,
                      stride=_pair(p.stride, p.stride_h, p.stride_w, 1),
                      pad=_pair(p.pad, p.pad_h, p.pad_w, 0), round_up=bool(round_up),
                      whole=bool(p.global_pooling))
    return 'pool', attributes, arrays


def _inner_product(layer, shapes, arrays):
    p = layer.inner_product_param
    _require(p.axis == 1 and not p.transpose, layer, 'only axis 1, without transpose')
    return 'inner_product', dict(channels=p.num_output), arrays


def _relu(layer, shapes, arrays):
    in_place = list(layer.bottom) == list(layer.top)
    return 'relu', dict(slope=layer.relu_param.negative_slope, in_place=in_place), arrays


def _lrn(layer, shapes, arrays):
    p = layer.lrn_param
    _require(p.norm_region == p.ACROSS_CHANNELS, layer, 'only ACROSS_CHANNELS')
    return 'lrn', dict(size=p.local_size, alpha=p.alpha, beta=p.beta, k=p.k), arrays


def _dropout(layer, shapes, arrays):
    return 'dropout', dict(ratio=layer.dropout_param.dropout_ratio), arrays


def _concat(layer, shapes, arrays):
    p = layer.concat_param
    axis = p.concat_dim if p.HasField('concat_dim') else p.axis
    return 'concat', dict(axis=axis % len(shapes[0])), arrays


def _eltwise(layer, shapes, arrays):
    p = layer.eltwise_param
    method = {p.SUM: 'sum', p.PROD: 'product', p.MAX: 'max'}[p.operation]
    return 'eltwise', dict(method=method, factors=list(p.coeff) or [1.0] * len(shapes)), arrays


def _batch_norm(layer, shapes, arrays):
    p = layer.batch_norm_param
    _require(not p.fused_relu, layer, 'fused_relu is not converted')
    mean, variance, total = arrays
    # The stored sums are divided by the third array, which is 0 before the first update.
    share = 0 if total.flat[0] == 0 else 1 / total.flat[0]
    channels = mean.shape
    attributes = dict(eps=p.eps, fraction=p.moving_average_fraction, batch_statistics=None)
    if p.HasField('use_global_stats'):
        attributes['batch_statistics'] = not p.use_global_stats
    return 'batch_norm', attributes, [mean * share, variance * share, np.ones(channels, np.float32),
                                      np.zeros(channels, np.float32)]


def _scale(layer, shapes, arrays):
    p = layer.scale_param
    _require(p.axis == 1 and p.num_axes == 1 and len(layer.bottom) == 1, layer,
             'only one factor for each channel')
    return 'scale', {}, arrays


def _softmax(layer, shapes, arrays):
    return 'softmax', dict(axis=layer.softmax_param.axis % len(shapes[0])), arrays


def _flatten(layer, shapes, arrays):
    p, axes = layer.flatten_param, len(shapes[0])
    _require(p.axis % axes > 0, layer, 'axis 0, the batch, is not flattened')
    return 'flatten', dict(axis=p.axis % axes, end=p.end_axis % axes), arrays


def _noise(layer, shapes, arrays):
    """Noise that multiplies gives 0 in phase TEST, and noise that is added changes nothing."""
    return 'eltwise', dict(method='sum', factors=[float(layer.noise_param.additive)]), arrays


def _nested(layer, name, shape):
    """(graph, names of its arrays in their order) of a nested net for inputs of a shape."""
    import caffe
    net = getattr(layer.moe_param, name)
    net = type(layer.moe_param.gating_net).FromString(
        (net if name == 'gating_net' else net[0]).SerializeToString())
    inputs = [inner for inner in net.layer if inner.type in _INPUTS]
    _require(len(inputs) == 1, layer, 'only nested nets with one input')
    inputs[0].input_param.ClearField('shape')
    inputs[0].input_param.shape.add().dim.extend(shape)
    graph, arrays = extract(caffe.Net(net, caffe.TEST))
    _require(all(node.operation not in ('batch_norm', 'scale') for node in graph.nodes), layer,
             'only nested nets whose arrays keep their order')
    return graph, list(arrays)


def _mixture(layer, shapes, arrays):
    p = layer.moe_param
    _require(len(layer.bottom) == len(layer.top) == len(p.expert_net) == 1 and not p.map_bottom,
             layer, 'only one bottom, one top, and instances of one expert net')
    gating, gating_arrays = _nested(layer, 'gating_net', shapes[0])
    expert, expert_arrays = _nested(layer, 'expert_net', shapes[0])
    experts = p.expert_instances[0] if p.expert_instances else 1
    _require(len(arrays) == len(gating_arrays) + experts * len(expert_arrays), layer,
             'more arrays than those of the gating net and of the experts')
    attributes = dict(
        gating=dataclasses.asdict(gating), gating_arrays=gating_arrays,
        expert=dataclasses.asdict(expert), expert_arrays=expert_arrays, experts=experts,
        select=p.select_experts if p.HasField('select_experts') else experts)
    return 'mixture', attributes, arrays


def _reshape(layer, shapes, arrays):
    p, shape = layer.reshape_param, shapes[0]
    dims = list(p.shape.dim)
    _require(p.axis == 0 and p.num_axes == -1 and dims and dims[0] in (0, shape[0]), layer,
             'only a shape of all axes that keeps the batch')
    dims = [shape[i] if dim == 0 else dim for i, dim in enumerate(dims)]
    return 'reshape', dict(shape=[int(dim) for dim in dims[1:]]), arrays


_CONVERTERS = dict(
    BatchNorm=_batch_norm, Concat=_concat, Convolution=_convolution,
    ConvolutionDepthwise=_convolution, DepthwiseConvolution=_convolution, Dropout=_dropout,
    Eltwise=_eltwise, Flatten=_flatten, InnerProduct=_inner_product, LRN=_lrn, MOE=_mixture,
    Noise=_noise, Pooling=_pooling,
    ReLU=_relu, Reshape=_reshape, Scale=_scale, Softmax=_softmax)
_INPUTS = ('Data', 'DummyData', 'Input')
_IGNORED = ('Accuracy', 'Silence', 'SoftmaxWithLoss')


def _rates(layer, count):
    """(lr_mult, decay_mult) of each array."""
    found = [(p.lr_mult, p.decay_mult) for p in layer.param][:count]
    return found + [(1.0, 1.0)] * (count - len(found))


def _join_scales(nodes, arrays):
    """Batch normalisation with the factor and offset of the Scale that is its only reader."""
    joined, by_output = [], {}
    for node in nodes:
        before = by_output.get(node.inputs[0]) if node.inputs else None
        readers = before and sum(other.inputs.count(before.output) for other in nodes)
        if node.operation == 'scale' and before and before.operation == 'batch_norm' and (
                readers == 1):
            for i, name in enumerate(node.weights):
                arrays[before.weights[2 + i]] = arrays.pop(name)
                before.rates[2 + i] = node.rates[i]
            before.output = node.output
            by_output[node.output] = before
            continue
        joined.append(node)
        by_output[node.output] = node
    return joined


def extract(net):
    """(graph, arrays) of a caffe.Net whose first layer is its input."""
    from caffe.proto import caffe_pb2
    nodes, arrays, shapes = [], {}, {}
    current = {}  # blob -> the value that it holds now
    for name, caffe_layer in zip(net._layer_names, net.layers):
        layer = caffe_pb2.LayerParameter.FromString(caffe_layer.layer_param.SerializeToString())
        bottoms, tops = net.bottom_names[name], net.top_names[name]
        if layer.type in _IGNORED:
            continue
        if layer.type == 'Split':
            current.update((top, current[bottoms[0]]) for top in tops)
            continue
        if layer.type in _INPUTS:
            if nodes:
                continue  # labels
            current[tops[0]] = tops[0]
            shapes[tops[0]] = tuple(net.blobs[tops[0]].shape)
            nodes.append(Node('input', name, [], tops[0], dict(shape=list(shapes[tops[0]]))))
            continue
        _require(layer.type in _CONVERTERS, layer, 'this type has no counterpart in the peers')
        inputs = [current[bottom] for bottom in bottoms]
        blobs = [np.array(blob.data, np.float32) for blob in caffe_layer.blobs]
        operation, attributes, weights = _CONVERTERS[layer.type](
            layer, [shapes[value] for value in inputs], blobs)
        output = tops[0] if tops[0] not in shapes else '%s of %s' % (tops[0], name)
        names = ['%s %d' % (name, i) for i in range(len(weights))]
        arrays.update(zip(names, weights))
        # Batch normalisation alone learns nothing; a Scale behind it brings its own rates.
        rates = ([(0.0, 0.0)] * len(weights) if operation == 'batch_norm' else
                 _rates(layer, len(weights)))
        nodes.append(Node(operation, name, inputs, output, attributes, names, rates))
        current[tops[0]] = output
        shapes[output] = tuple(net.blobs[tops[0]].shape)
    graph = Graph(net.name, _join_scales(nodes, arrays), {})
    values = {node.output for node in graph.nodes}
    graph.shapes = {value: shape for value, shape in shapes.items() if value in values}
    graph.check_shapes()
    return graph, arrays
