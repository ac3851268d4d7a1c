"""Builds a PyTorch module from a Graph: ordinary modules, called by code that torch.fx writes."""
import dataclasses
import operator

import torch
import torch.fx
from torch import nn

from peers.graph import end_pads, from_fields, overhangs


class AveragePool(nn.Module):
    """Caffe's average pooling where a window ends behind the padding: zeros become image."""

    def __init__(self, node, end):
        super().__init__()
        rows, columns = node.attributes['pad']
        self.before = nn.ZeroPad2d((columns, columns, rows, rows))
        self.pool = nn.AvgPool2d(node.attributes['kernel'], node.attributes['stride'],
                                 ceil_mode=any(end))

    def forward(self, x):
        return self.pool(self.before(x))


class ScaleChannels(nn.Module):
    def __init__(self, arrays, axes):
        super().__init__()
        self.shape = (-1, *[1] * (axes - 2))
        self.weight = nn.Parameter(torch.from_numpy(arrays[0]))
        self.bias = nn.Parameter(torch.from_numpy(arrays[1])) if len(arrays) > 1 else None

    def forward(self, x):
        x = x * self.weight.view(self.shape)
        return x if self.bias is None else x + self.bias.view(self.shape)


class Mixture(nn.Module):
    """A mixture of experts. Each expert computes the items that selected it, gathered by index; with
    `all_items` every expert computes all items, which a captured graph needs."""

    def __init__(self, node, arrays, rates, all_items):
        super().__init__()
        a = node.attributes
        weights, node_rates = iter(node.weights), iter(node.rates)

        def nested(name):
            own, own_rates = {}, {}
            for array in a[name + '_arrays']:
                own[array], own_rates[array] = arrays[next(weights)], next(node_rates)
            graph = from_fields(a[name])
            for inner in graph.nodes:
                inner.rates = [own_rates[array] for array in inner.weights]
            module, found = build(graph, own)
            rates.update(found)
            return module
        self.gating = nested('gating')
        self.experts = nn.ModuleList(nested('expert') for _ in range(a['experts']))
        self.select, self.all_items = a['select'], all_items

    def forward(self, x):
        probability = self.gating(x).float()
        weight, chosen = probability.topk(self.select, 1)
        weight = weight / weight.sum(1, keepdim=True)
        if self.all_items:
            weights = torch.zeros_like(probability).scatter(1, chosen, weight)
            return sum(expert(x) * weights[:, e, None].to(x.dtype)
                       for e, expert in enumerate(self.experts))
        result = None
        for e, expert in enumerate(self.experts):
            item, place = torch.where(chosen == e)
            if len(item) == 0:
                continue
            part = expert(x[item]) * weight[item, place, None].to(x.dtype)
            if result is None:
                result = part.new_zeros((len(x), *part.shape[1:]))
            result.index_add_(0, item, part)
        return result


def _load(module, node, arrays, rates):
    """Copies weight and bias; their rates are noted for the optimiser."""
    for parameter, name, rate in zip((module.weight, module.bias), node.weights, node.rates):
        parameter.data.copy_(torch.from_numpy(arrays[name]))
        rates[parameter] = tuple(rate)
    return module


def _batch_norm(node, arrays, rates):
    a = node.attributes
    mean, variance, factor, offset = (torch.from_numpy(arrays[name]) for name in node.weights)
    statistics = a['batch_statistics']
    module = nn.BatchNorm2d(len(mean), a['eps'], 1 - a['fraction'])
    module.running_mean.copy_(mean)
    module.running_var.copy_(variance)
    if statistics is not None:
        raise ValueError('%s: use_global_stats is not built in PyTorch' % node.name)
    for parameter, values, rate in zip((module.weight, module.bias), (factor, offset),
                                       node.rates[2:]):
        parameter.data.copy_(values)
        rates[parameter] = tuple(rate)
        parameter.requires_grad_(rate[0] != 0)
    return module


def _pool(node, shape, pooled):
    a = node.attributes
    if a['whole']:
        return nn.AdaptiveAvgPool2d(1) if a['method'] == 'average' else nn.AdaptiveMaxPool2d(1)
    ceil_mode = any(end > pad for end, pad in zip(end_pads(node, shape, pooled), a['pad']))
    if a['method'] == 'max':
        return nn.MaxPool2d(a['kernel'], a['stride'], a['pad'], ceil_mode=ceil_mode)
    end = overhangs(node, shape, pooled)
    if any(a['pad']) and any(end):
        return AveragePool(node, end)
    return nn.AvgPool2d(a['kernel'], a['stride'], a['pad'], ceil_mode=ceil_mode)


def _module(node, graph, arrays, rates, all_items):
    a, operation = node.attributes, node.operation
    shape = graph.shapes[node.inputs[0]]
    if operation == 'convolution':
        module = nn.Conv2d(shape[1], a['channels'], a['kernel'], a['stride'], a['pad'],
                           a['dilation'], a['group'], bias=len(node.weights) > 1)
        return _load(module, node, arrays, rates)
    if operation == 'inner_product':
        module = nn.Linear(arrays[node.weights[0]].shape[1], a['channels'],
                           bias=len(node.weights) > 1)
        return _load(module, node, arrays, rates)
    if operation == 'batch_norm':
        return _batch_norm(node, arrays, rates)
    if operation == 'scale':
        module = ScaleChannels([arrays[name] for name in node.weights], len(shape))
        rates.update(zip((module.weight, module.bias), map(tuple, node.rates)))
        return module
    if operation == 'pool':
        return _pool(node, shape, graph.shapes[node.output])
    if operation == 'relu':
        in_place = (a['in_place'] and graph.readers(node.inputs[0]) == 1 and
                    node.inputs[0] != graph.input)
        if a['slope']:
            return nn.LeakyReLU(a['slope'], inplace=in_place)
        return nn.ReLU(inplace=in_place)
    if operation == 'lrn':
        return nn.LocalResponseNorm(a['size'], a['alpha'], a['beta'], a['k'])
    if operation == 'dropout':
        return nn.Dropout(a['ratio'])
    if operation == 'softmax':
        return nn.Softmax(a['axis'])
    if operation == 'flatten':
        return nn.Flatten(a['axis'], a['end'])
    if operation == 'mixture':
        return Mixture(node, arrays, rates, all_items)
    return None


def _eltwise(fx, node, values):
    a = node.attributes
    if a['method'] == 'sum':
        values = [value if factor == 1 else fx.call_function(operator.mul, (value, factor))
                  for value, factor in zip(values, a['factors'])]
    function = dict(sum=torch.add, product=torch.mul, max=torch.maximum)[a['method']]
    result = values[0]
    for other in values[1:]:
        result = fx.call_function(function, (result, other))
    return result


def build(graph, arrays, all_items=False):
    """(module, rates): a float module, and (lr_mult, decay_mult) of every parameter. `all_items` is
    an argument of Mixture."""
    rates, modules, fx = {}, nn.ModuleDict(), torch.fx.Graph()
    values = {graph.input: fx.placeholder('x')}
    for i, node in enumerate(graph.nodes[1:]):
        inputs = [values[value] for value in node.inputs]
        module = _module(node, graph, arrays, rates, all_items)
        if node.operation == 'inner_product' and len(graph.shapes[node.inputs[0]]) > 2:
            inputs = [fx.call_function(torch.flatten, (inputs[0], 1))]
        if module is not None:
            key = 'm%d_%s' % (i, node.operation)
            modules[key] = module
            result = fx.call_module(key, tuple(inputs))
        elif node.operation == 'concat':
            result = fx.call_function(torch.cat, (inputs, node.attributes['axis']))
        elif node.operation == 'reshape':
            result = fx.call_method('reshape', (inputs[0], (-1, *graph.shapes[node.output][1:])))
        elif node.operation == 'eltwise':
            result = _eltwise(fx, node, inputs)
        else:
            raise ValueError('%s: %s is not built in PyTorch' % (node.name, node.operation))
        result.meta['caffe'] = (node.name, tuple(graph.shapes[node.output][1:]))
        values[node.output] = result
    fx.output(values[graph.output])
    fx.lint()
    return torch.fx.GraphModule(modules, fx), rates


def without_softmax(graph):
    """The graph that ends at the scores, for a loss that contains the Softmax."""
    if graph.nodes[-1].operation != 'softmax':
        raise ValueError('%s does not end with a Softmax' % graph.name)
    return dataclasses.replace(graph, nodes=graph.nodes[:-1])


class _Checker(torch.fx.Interpreter):
    def run_node(self, n):
        result = super().run_node(n)
        name, shape = n.meta.get('caffe', (None, None))
        if name is not None and tuple(result.shape[1:]) != shape:
            raise ValueError('%s: PyTorch gives shape %s, Caffe %s, without the batch' % (
                name, tuple(result.shape[1:]), shape))
        return result


def check_shapes(module, images):
    """Throws if a value of a module of build() has another shape than in Caffe."""
    training = module.training
    module.eval()
    with torch.no_grad():
        _Checker(module).run(images)
    module.train(training)
