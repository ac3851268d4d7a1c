#!/usr/bin/env python3
"""Compares nets on a device with the CPU: what tools/driver_test.sh runs for a driver of OpenCL.

driver_nets.py DEVICE [--nets lenet …] [--types float …] [--batch 1]: one row for each net and type
(scores before the Softmax: floats within a tolerance, codes equal), for a mixture of experts, for
recurrent layers, and for the loss of a training of 60 steps. The exit status is 1 if a row failed.
"""
import argparse
import os
import sys
import tempfile

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
try:
    import caffe
except ImportError:
    sys.path.insert(0, os.path.join(ROOT, 'python'))
    import caffe
from caffe import layers as L, params as P
from caffe.proto import caffe_pb2
from google.protobuf import text_format

TYPES = {'float': caffe_pb2.CAFFE_FLOAT, 'half': caffe_pb2.CAFFE_HALF,
         'bfloat16': caffe_pb2.CAFFE_BFLOAT16}
# The largest difference, relative to the largest score: sums have another order.
TOLERANCE = {'float': 1e-4, 'half': 2e-2, 'bfloat16': 1.5e-1}
MODELS = {'lenet': 'lenet/lenet', 'squeezenet': 'squeezenet/deploy', 'resnet50': 'resnet50/deploy',
          'mixture': 'lenet_moe/lenet_moe'}


def net_of(name, batch):
    message = caffe_pb2.NetParameter()
    with open(os.path.join(ROOT, 'models', MODELS[name] + '.prototxt'), encoding='utf-8') as file:
        text_format.Parse(file.read(), message)
    message.layer[0].input_param.shape[0].dim[0] = batch
    # The scores are compared, not their Softmax.
    del message.layer[-1]
    return message


def recurrent_net(batch):
    net = caffe.NetSpec()
    net.data = L.Input(shape=dict(dim=[12, batch, 16]))
    net.cont = L.Input(shape=dict(dim=[12, batch]))
    weights = dict(num_output=24, weight_filler=dict(type='gaussian', std=0.2))
    net.lstm = L.LSTM(net.data, net.cont, recurrent_param=weights)
    net.score = L.InnerProduct(net.lstm, axis=2, num_output=10,
                               weight_filler=dict(type='gaussian', std=0.2))
    return net.to_proto()


def load(message, folder, device, weights=None):
    path = os.path.join(folder, 'net.prototxt')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text_format.MessageToString(message))
    caffe.set_device(device)
    caffe.set_random_seed(1)
    return caffe.Net(path, caffe.TEST, weights=weights) if weights else caffe.Net(path, caffe.TEST)


def fill(net):
    """Weights for which activations keep their size; BatchNorm keeps its statistics."""
    random = np.random.RandomState(3)
    for name, blobs in net.params.items():
        kind = net.layers[list(net._layer_names).index(name)].type
        if kind == 'BatchNorm':
            for blob, value in zip(blobs, (0.05, 0.9, 1)):
                blob.data[...] = value
        elif blobs[0].data.ndim > 1:
            fan_in = int(np.prod(blobs[0].data.shape[1:]))
            blobs[0].data[...] = random.normal(0, (1.5 / fan_in) ** 0.5, blobs[0].data.shape)


def inputs_of(net):
    random = np.random.RandomState(5)
    values = {}
    for name in net.inputs:
        shape = tuple(net.blobs[name].shape)
        values[name] = random.uniform(-1, 1, shape).astype(np.float32)
        if name == 'cont':
            values[name] = (values[name] > -0.6).astype(np.float32)
    return values


def scores(net, values):
    (name,) = list(net.forward(**values))[-1:]
    return np.array(net.blobs[name].data, np.float64)


def compare(device, message, kind, folder):
    """(passed, what differs) of one net in one type."""
    plain = load(message, folder, 'cpu')
    fill(plain)
    weights = os.path.join(folder, 'float.caffemodel')
    plain.save(weights)
    values = inputs_of(plain)
    if kind in TYPES:
        message.data_type = TYPES[kind]
        typed, files = message, weights
    else:
        prefix = os.path.join(folder, 'typed')
        caffe.quantize((message, weights), [values, values], type=kind, out=prefix,
                       float_scores=False)
        typed = caffe_pb2.NetParameter()
        with open(prefix + '.prototxt', encoding='utf-8') as file:
            text_format.Parse(file.read(), typed)
        files = prefix + '.caffemodel'
    expected = scores(load(typed, folder, 'cpu', files), values)
    actual = scores(load(typed, folder, device, files), values)
    size = np.abs(expected).max()
    difference = np.abs(actual - expected).max() / max(size, 1e-30)
    passed = np.isfinite(size) and size > 0 and difference <= TOLERANCE.get(kind, 0)
    return passed, 'largest difference %.2g of %.3g' % (difference, size)


def training_net(kind):
    net = caffe.NetSpec()
    net.data = L.Input(shape=dict(dim=[16, 3, 12, 12]))
    net.label = L.Input(shape=dict(dim=[16]))
    fillers = dict(weight_filler=dict(type='xavier'), bias_filler=dict(type='constant', value=0.1))
    net.conv1 = L.Convolution(net.data, num_output=16, kernel_size=3, pad=1, **fillers)
    net.norm1 = L.BatchNorm(net.conv1)
    net.scale1 = L.Scale(net.norm1, bias_term=True)
    net.relu1 = L.ReLU(net.scale1, in_place=True)
    net.pool1 = L.Pooling(net.relu1, pool=P.Pooling.MAX, kernel_size=2, stride=2)
    net.lrn = L.LRN(net.pool1, local_size=3)
    net.wise = L.Convolution(net.lrn, num_output=16, group=16, kernel_size=3, pad=1, **fillers)
    net.relu2 = L.ReLU(net.wise, in_place=True)
    net.pool2 = L.Pooling(net.relu2, pool=P.Pooling.AVE, kernel_size=2, stride=2)
    net.drop = L.Dropout(net.pool2, dropout_ratio=0.2, in_place=True)
    net.score = L.InnerProduct(net.drop, num_output=5, **fillers)
    net.loss = L.SoftmaxWithLoss(net.score, net.label)
    message = net.to_proto()
    message.data_type = TYPES[kind]
    return message


def losses(device, kind):
    caffe.set_device(device)
    solver = caffe_pb2.SolverParameter(type='Adam', base_lr=0.005, lr_policy='fixed', momentum=0.9,
                                       clip_gradients=5, random_seed=7,
                                       net_param=training_net(kind))
    solver = caffe.get_solver(solver)
    random = np.random.RandomState(9)
    images = random.uniform(-1, 1, (16, 3, 12, 12)).astype(np.float32)
    labels = (np.abs(images).mean((1, 2, 3)) * 997 % 5).astype(int)
    found = []
    for _ in range(60):
        solver.net.blobs['data'].data[...] = images
        solver.net.blobs['label'].data[...] = labels
        solver.step(1)
        found.append(float(solver.net.blobs['loss'].data))
    return found


def train(device, kind):
    expected, actual = losses('cpu', kind), losses(device, kind)
    # Rounding errors grow with the steps: the first ones agree, and both learn.
    close = 0.02 if kind == 'float' else 0.25
    first = max(abs(a - b) / max(abs(b), 0.1) for a, b in zip(actual[:10], expected[:10]))
    learned = actual[-1] < 0.6 * actual[0] and expected[-1] < 0.6 * expected[0]
    return first <= close and learned, 'loss %.3g to %.3g, of the CPU %.3g to %.3g' % (
        actual[0], actual[-1], expected[0], expected[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n')[0])
    parser.add_argument('device')
    parser.add_argument('--nets', nargs='+', choices=[*MODELS, 'lstm', 'training'],
                        default=[*MODELS, 'lstm', 'training'])
    parser.add_argument('--types', nargs='+', choices=[*TYPES, 'int8', 'int16'],
                        default=[*TYPES, 'int8', 'int16'])
    parser.add_argument('--batch', type=int, default=1)
    options = parser.parse_args()
    failed = 0
    for name in options.nets:
        for kind in options.types:
            if name == 'training' and kind not in TYPES:
                continue
            with tempfile.TemporaryDirectory() as folder:
                try:
                    if name == 'training':
                        passed, text = train(options.device, kind)
                    else:
                        message = (recurrent_net(options.batch) if name == 'lstm' else
                                   net_of(name, options.batch))
                        passed, text = compare(options.device, message, kind, folder)
                except Exception as error:  # a row that fails does not hide the others
                    passed, text = False, str(error).split('\n')[0]
            failed += not passed
            print('%-12s %-9s %-5s %s' % (name, kind, 'pass' if passed else 'FAIL', text), flush=True)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
