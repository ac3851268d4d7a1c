"""A net as nodes and arrays, without a framework: what Cortado's nets are converted to.

A value is written once: layers that work in place get values of their own. Shapes contain the
batch, axis 0. Only NumPy is needed here.
"""
import dataclasses
import json
import math

import numpy as np

OPERATIONS = ('batch_norm', 'concat', 'convolution', 'dropout', 'eltwise', 'flatten',
              'inner_product', 'input', 'lrn', 'mixture', 'pool', 'relu', 'reshape', 'scale',
              'softmax')


@dataclasses.dataclass
class Node:
    """One operation. `weights` are names of arrays; `attributes` are listed at `infer_shape`."""
    operation: str
    name: str
    inputs: list
    output: str
    attributes: dict
    weights: list = dataclasses.field(default_factory=list)
    # (lr_mult, decay_mult) of each weight.
    rates: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Graph:
    name: str
    nodes: list
    shapes: dict  # of every value, as the net gives them

    @property
    def input(self):
        return self.nodes[0].output

    @property
    def output(self):
        return self.nodes[-1].output

    def with_batch(self, batch):
        """The same graph for another batch size."""
        shape = [batch, *self.nodes[0].attributes['shape'][1:]]
        first = dataclasses.replace(self.nodes[0], attributes=dict(shape=shape))
        return Graph(self.name, [first, *self.nodes[1:]],
                     {value: (batch, *shape[1:]) for value, shape in self.shapes.items()})

    def readers(self, value):
        """How often nodes read a value."""
        return sum(node.inputs.count(value) for node in self.nodes)

    def has_dropout(self):
        return any(node.operation == 'dropout' for node in self.nodes)

    def check_shapes(self):
        """Throws if the rules below disagree with the shapes that the net gave."""
        for node in self.nodes:
            inferred = infer_shape(node, [self.shapes[value] for value in node.inputs])
            if tuple(inferred) != tuple(self.shapes[node.output]):
                raise ValueError('%s (%s): shape %s, but the net has %s' % (
                    node.name, node.operation, tuple(inferred), tuple(self.shapes[node.output])))


def save(graph, arrays, path):
    """Writes graph and arrays into one .npz file."""
    text = json.dumps(dataclasses.asdict(graph))
    np.savez(path, graph=np.frombuffer(text.encode(), np.uint8),
             **{'array ' + name: array for name, array in arrays.items()})


def load(path):
    """(graph, arrays) of a file of save()."""
    with np.load(path) as file:
        fields = json.loads(file['graph'].tobytes().decode())
        arrays = {key[len('array '):]: file[key] for key in file.files if key != 'graph'}
    return from_fields(fields), arrays


def from_fields(fields):
    """The graph of which `fields` is dataclasses.asdict(), perhaps as read from JSON."""
    shapes = {value: tuple(shape) for value, shape in fields['shapes'].items()}
    return Graph(fields['name'], [Node(**node) for node in fields['nodes']], shapes)


# --- Shapes ---------------------------------------------------------------------------------------

def pooled_extent(extent, kernel, stride, pad, round_up, padded):
    """The number of windows along one axis, as Caffe counts them.

    With round_up, the last window may end outside. If an axis is padded, a window that would start
    in the padding behind the image is left out.
    """
    room = extent + 2 * pad - kernel
    windows = 1 + max(0, math.ceil(room / stride) if round_up else room // stride)
    if padded and (windows - 1) * stride >= extent + pad:
        windows -= 1
    return windows


def overhangs(node, shape, pooled):
    """By how much the last window of each axis ends behind the image and its padding."""
    attributes = node.attributes
    return [max(0, (windows - 1) * stride + kernel - extent - 2 * pad)
            for windows, stride, kernel, extent, pad in zip(
                pooled[2:], attributes['stride'], attributes['kernel'], shape[2:],
                attributes['pad'])]


def end_pads(node, shape, pooled):
    """The padding behind the image of `shape` that gives exactly the windows of `pooled`."""
    attributes = node.attributes
    return [max(0, (windows - 1) * stride + kernel - extent - pad)
            for windows, stride, kernel, extent, pad in zip(
                pooled[2:], attributes['stride'], attributes['kernel'], shape[2:],
                attributes['pad'])]


def infer_shape(node, shapes):
    """The shape of a node's output. Attributes of each operation:

    input: shape. convolution: channels, kernel, stride, pad, dilation (rows, columns), group.
    pool: method (max, average), kernel, stride, pad, round_up, whole (the window is the image).
    inner_product: channels. lrn: size, alpha, beta, k. relu: slope, in_place. dropout: ratio.
    concat: axis. eltwise: method (sum, product, max), factors. softmax: axis. scale: none.
    batch_norm: eps, fraction, batch_statistics (None: in training only); its weights are mean,
    variance, and the factor and offset of each channel. flatten: axis, end. reshape: shape, with
    the batch left out. mixture: gating, expert (fields of nested graphs), gating_arrays,
    expert_arrays (names that these give to the weights, which are those of the gating net and then
    of each expert), experts, select (how many of them compute an item).
    """
    operation, attributes = node.operation, node.attributes
    shape = tuple(shapes[0]) if shapes else ()
    if operation == 'input':
        return tuple(attributes['shape'])
    if operation == 'convolution':
        spatial = [(extent + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
                   for extent, pad, dilation, kernel, stride in zip(
                       shape[2:], attributes['pad'], attributes['dilation'], attributes['kernel'],
                       attributes['stride'])]
        return (shape[0], attributes['channels'], *spatial)
    if operation == 'pool':
        padded = any(attributes['pad'])
        spatial = [pooled_extent(extent, kernel, stride, pad, attributes['round_up'], padded)
                   for extent, kernel, stride, pad in zip(
                       shape[2:], attributes['kernel'], attributes['stride'], attributes['pad'])]
        return (*shape[:2], *spatial)
    if operation == 'inner_product':
        return (shape[0], attributes['channels'])
    if operation == 'concat':
        axis = attributes['axis']
        return (*shape[:axis], sum(s[axis] for s in shapes), *shape[axis + 1:])
    if operation == 'flatten':
        axis, end = attributes['axis'], attributes['end']
        return (*shape[:axis], math.prod(shape[axis:end + 1]), *shape[end + 1:])
    if operation == 'reshape':
        wanted = list(attributes['shape'])
        if -1 in wanted:
            known = math.prod(extent for extent in wanted if extent != -1)
            wanted[wanted.index(-1)] = math.prod(shape[1:]) // known
        return (shape[0], *wanted)
    if operation == 'mixture':
        expert = attributes['expert']
        return (shape[0], *expert['shapes'][expert['nodes'][-1]['output']][1:])
    if operation in ('batch_norm', 'dropout', 'eltwise', 'lrn', 'relu', 'scale', 'softmax'):
        return shape
    raise ValueError('%s: unknown operation %s' % (node.name, operation))
