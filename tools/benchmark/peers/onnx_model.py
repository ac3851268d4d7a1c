"""Writes a Graph as an ONNX model, operation by operation."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from peers.graph import end_pads, overhangs

OPSET, IR_VERSION = 17, 8


def _pool(node, shape, pooled):
    """MaxPool or AveragePool, with Pad before it where ONNX counts padding in another way."""
    a = node.attributes
    average = a['method'] == 'average'
    if a['whole']:
        return [helper.make_node('GlobalAveragePool' if average else 'GlobalMaxPool', node.inputs,
                                 [node.output])], []
    inputs, begin, end = node.inputs, a['pad'], end_pads(node, shape, pooled)
    nodes, extra = [], []
    more = {}
    if average:
        # Caffe divides by the part of a window on the image and its padding. ONNX counts all of
        # the padding or nothing, so padding that counts becomes part of the image.
        if any(a['pad']) and any(overhangs(node, shape, pooled)):
            pads = np.array([0, 0, *begin, 0, 0, *begin], np.int64)
            extra.append(numpy_helper.from_array(pads, node.output + ' pads'))
            nodes.append(helper.make_node('Pad', [inputs[0], node.output + ' pads'],
                                          [node.output + ' padded']))
            inputs, begin = [node.output + ' padded'], [0, 0]
            end = overhangs(node, shape, pooled)
            more = dict(count_include_pad=0)
        else:
            more = dict(count_include_pad=int(any(a['pad'])))
    nodes.append(helper.make_node(
        'AveragePool' if average else 'MaxPool', inputs, [node.output], kernel_shape=a['kernel'],
        strides=a['stride'], pads=[*begin, *end], **more))
    return nodes, extra


def _eltwise(node):
    a, nodes, extra = node.attributes, [], []
    inputs = list(node.inputs)
    if a['method'] == 'sum':
        for i, factor in enumerate(a['factors']):
            if factor != 1:
                name = '%s factor %d' % (node.output, i)
                extra.append(numpy_helper.from_array(np.float32(factor), name))
                nodes.append(helper.make_node('Mul', [inputs[i], name], [name + ' result']))
                inputs[i] = name + ' result'
    operator = dict(sum='Add', product='Mul', max='Max')[a['method']]
    value = inputs[0]
    for i, other in enumerate(inputs[1:], 1):
        result = node.output if i == len(inputs) - 1 else '%s part %d' % (node.output, i)
        nodes.append(helper.make_node(operator, [value, other], [result]))
        value = result
    return nodes, extra


def _convert(node, graph, arrays):
    """(nodes, initializers) of ONNX."""
    a = node.attributes
    shape = graph.shapes[node.inputs[0]]

    def one(operator, inputs=(), **attributes):
        return [helper.make_node(operator, [*node.inputs, *inputs], [node.output],
                                 **attributes)], []

    if node.operation == 'convolution':
        return one('Conv', node.weights, kernel_shape=a['kernel'], strides=a['stride'],
                   pads=[*a['pad'], *a['pad']], dilations=a['dilation'], group=a['group'])
    if node.operation == 'pool':
        return _pool(node, shape, graph.shapes[node.output])
    if node.operation == 'inner_product':
        flat = node.output + ' flat'
        return [helper.make_node('Flatten', node.inputs, [flat], axis=1),
                helper.make_node('Gemm', [flat, *node.weights], [node.output], transB=1)], []
    if node.operation == 'relu':
        return one('LeakyRelu', alpha=a['slope']) if a['slope'] else one('Relu')
    if node.operation == 'lrn':
        return one('LRN', size=a['size'], alpha=a['alpha'], beta=a['beta'], bias=a['k'])
    if node.operation == 'dropout':
        return one('Identity')
    if node.operation == 'concat':
        return one('Concat', axis=a['axis'])
    if node.operation == 'eltwise':
        return _eltwise(node)
    if node.operation == 'batch_norm':
        if a['batch_statistics']:
            raise ValueError('%s: statistics of the batch are not written as ONNX' % node.name)
        mean, variance, factor, offset = node.weights
        return one('BatchNormalization', [factor, offset, mean, variance], epsilon=a['eps'])
    if node.operation == 'scale':
        names = ['%s array %d' % (node.output, i) for i in range(len(node.weights))]
        extra = [numpy_helper.from_array(arrays[weight].reshape(-1, *[1] * (len(shape) - 2)), name)
                 for weight, name in zip(node.weights, names)]
        product = node.output + ' product' if len(names) > 1 else node.output
        nodes = [helper.make_node('Mul', [node.inputs[0], names[0]], [product])]
        if len(names) > 1:
            nodes.append(helper.make_node('Add', [product, names[1]], [node.output]))
        return nodes, extra
    if node.operation == 'softmax':
        return one('Softmax', axis=a['axis'])
    if node.operation in ('flatten', 'reshape'):
        name = node.output + ' shape'
        wanted = np.array([0, *graph.shapes[node.output][1:]], np.int64)
        nodes, _ = one('Reshape', [name])
        return nodes, [numpy_helper.from_array(wanted, name)]
    raise ValueError('%s: %s is not written as ONNX' % (node.name, node.operation))


def make_model(graph, arrays):
    """The ModelProto of a graph, in phase TEST."""
    nodes, initializers = [], []
    for node in graph.nodes[1:]:
        new, extra = _convert(node, graph, arrays)
        nodes += new
        initializers += extra
    used = {name for node in nodes for name in node.input}
    initializers += [numpy_helper.from_array(array, name) for name, array in arrays.items()
                     if name in used]
    model = helper.make_model(
        helper.make_graph(
            nodes, graph.name or 'net',
            [helper.make_tensor_value_info(graph.input, TensorProto.FLOAT,
                                           graph.shapes[graph.input])],
            [helper.make_tensor_value_info(graph.output, TensorProto.FLOAT,
                                           graph.shapes[graph.output])], initializers),
        opset_imports=[helper.make_opsetid('', OPSET)], producer_name='tools/benchmark')
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model)
    return model
