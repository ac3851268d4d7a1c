#!/usr/bin/env python3
"""The thesis' simple net for MNIST, 784-30-10, in four precisions beside its table 4.7.

Trains in float with batches of one image, observes ranges on the last 10,000 training images, and
tests the same weights in float, half, INT16 and INT8 on the test images.
"""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, 'examples', 'data')]
sys.path.append(os.path.join(ROOT, 'python'))  # unless it is installed

import caffe  # noqa: E402  (first: its error says how to install missing packages)
import numpy as np  # noqa: E402

from caffe import layers as L  # noqa: E402
import create_mnist  # noqa: E402
from create_mnist_pickle import read_set  # noqa: E402

TYPES = {'float': caffe.data_type.CAFFE_FLOAT, 'half': caffe.data_type.CAFFE_HALF,
         'int16': caffe.data_type.CAFFE_INT16_QUANTIZED,
         'int8': caffe.data_type.CAFFE_INT8_QUANTIZED}
THESIS = {'float': 85.26, 'half': 85.30, 'int16': 85.27, 'int8': 85.36}
VALIDATION = 10000


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--data', help='folder with the IDX files (default: download them)')
    parser.add_argument('--device', help='cpu, cuda:0, opencl:1, … (default: the best there is)')
    parser.add_argument('--iterations', type=int, default=16000)
    parser.add_argument('--images', type=int, default=10000, help='of each set, for ranges and tests')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--output', default=os.path.join(ROOT, 'build', 'mnist', 'simple'))
    return parser.parse_args()


def write_net(folder, name):
    """The path of the prototxt in one precision; both phases."""
    types = dict(bottom_data_type=TYPES[name], compute_data_type=TYPES[name],
                 top_data_type=TYPES[name], weight_filler=dict(type='xavier'),
                 bias_filler=dict(type='constant'))
    net = caffe.NetSpec()
    net.mnist_image = L.Input(shape=dict(dim=[1, 1, 1, 784]))
    net.label = L.Input(shape=dict(dim=[1, 1, 1, 1]))
    net.hidden_layer = L.InnerProduct(net.mnist_image, num_output=30, **types)
    net.output_layer = L.InnerProduct(net.hidden_layer, num_output=10, **types)
    net.loss = L.SoftmaxWithLoss(net.output_layer, net.label, include=dict(phase=0))
    net.pred = L.Softmax(net.output_layer, include=dict(phase=1))
    path = os.path.join(folder, 'net_%s.prototxt' % name)
    with open(path, 'w') as file:
        print(net.to_proto(), file=file)
    return path


def train(net_file, images, labels, arguments):
    """The path of the trained weights."""
    config = caffe.SolverParameter()
    config.train_net = net_file
    config.type = 'Adam'
    config.base_lr = 0.01
    config.momentum = 0.99
    config.weight_decay = 0.0001
    config.lr_policy = 'inv'
    config.gamma = 0.0001
    config.power = 0.75
    config.max_iter = arguments.iterations
    config.display = 1000
    config.snapshot_prefix = os.path.join(arguments.output, 'net')
    caffe.set_random_seed(arguments.seed)
    solver = caffe.get_solver(config)
    for pick in np.random.RandomState(arguments.seed).randint(len(images), size=config.max_iter):
        solver.net.blobs['mnist_image'].data[:] = images[pick] / 255
        solver.net.blobs['label'].data[0] = labels[pick]
        solver.step(1)
    path = os.path.join(arguments.output, 'weights.caffemodel')
    solver.net.save(path)
    return path


def main():
    arguments = parse_arguments()
    os.makedirs(arguments.output, exist_ok=True)
    data = arguments.data
    if data is None:
        data = os.path.join(HERE, 'data')
        create_mnist.download(data)
    if arguments.device is not None:
        caffe.set_device(arguments.device)
    images, labels = read_set(data, 'train')
    nets = {name: write_net(arguments.output, name) for name in TYPES}
    weights = train(nets['float'], images[:-VALIDATION], labels[:-VALIDATION], arguments)

    observed = caffe.Net(nets['float'], caffe.TEST, weights=weights)
    observed.quant_mode = caffe.quantizer_mode.CAFFE_QUANT_OBSERVE
    for image in images[-VALIDATION:][:arguments.images]:
        observed.blobs['mnist_image'].data[:] = image / 255
        observed.forward()
    trained = os.path.join(arguments.output, 'net_trained.caffemodel')
    observed.save(trained)

    images, labels = read_set(data, 't10k')
    print('%-9s %10s %10s' % ('precision', 'accuracy', 'thesis'))
    for name in TYPES:
        net = caffe.Net(nets[name], caffe.TEST, weights=trained)
        right = 0
        for image, label in zip(images[:arguments.images], labels):
            net.blobs['mnist_image'].data[:] = image / 255
            net.forward()
            right += int(np.argmax(net.blobs['pred'].data[:])) == label
        print('%-9s %9.2f%% %9.2f%%'
              % (name, 100 * right / min(arguments.images, len(labels)), THESIS[name]), flush=True)


if __name__ == '__main__':
    main()
