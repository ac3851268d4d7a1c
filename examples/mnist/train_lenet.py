#!/usr/bin/env python3
"""Trains LeNet on MNIST in any type; the NetSpec script in models/lenet makes the net."""
import argparse
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, 'models', 'lenet')]
sys.path.append(os.path.join(ROOT, 'python'))  # unless it is installed

import caffe  # noqa: E402  (first: its error says how to install missing packages)
from google.protobuf import text_format  # noqa: E402
import numpy as np  # noqa: E402

from caffe.proto import caffe_pb2  # noqa: E402
import create_mnist  # noqa: E402
import generate  # noqa: E402

TYPES = {'float': caffe_pb2.CAFFE_FLOAT, 'half': caffe_pb2.CAFFE_HALF,
         'bfloat16': caffe_pb2.CAFFE_BFLOAT16, 'double': caffe_pb2.CAFFE_DOUBLE}
# Trained in float, then quantized by the ranges observed on training images.
INTEGERS = {'int16': caffe_pb2.CAFFE_INT16_QUANTIZED, 'int8': caffe_pb2.CAFFE_INT8_QUANTIZED}
CALIBRATION_BATCHES, TEST_BATCHES = 50, 100  # of 100 images


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--data', help='folder with the IDX files (default: download them)')
    parser.add_argument('--device', help='cpu, cuda:0, opencl:1, … (default: the best there is)')
    parser.add_argument('--type', choices=TYPES, default='float')
    parser.add_argument('--iterations', type=int, default=10000)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--output', default=os.path.join(ROOT, 'build', 'mnist', 'lenet'),
                        help='folder for nets and snapshots; the LMDBs go to its parent')
    parser.add_argument('--no-table', action='store_true',
                        help='do not measure the trained net in other types')
    parser.add_argument('--tools', default=create_mnist.default_tools(),
                        help='folder with convert_mnist_data')
    return parser.parse_args()


def make_solver(arguments, databases):
    net = generate.train_test(*databases, data_type=TYPES[arguments.type])
    net_file = os.path.join(arguments.output, 'train_test.prototxt')
    with open(net_file, 'w') as file:
        print(net, file=file)
    settings = caffe_pb2.SolverParameter()
    with open(os.path.join(ROOT, 'models', 'lenet', 'lenet_solver.prototxt')) as file:
        text_format.Parse(file.read(), settings)
    settings.net = net_file
    settings.max_iter = arguments.iterations
    settings.snapshot_prefix = os.path.join(arguments.output, 'lenet')
    settings.random_seed = arguments.seed
    return caffe.get_solver(settings)


def test_accuracy(solver):
    """The share of correct answers on the 10,000 test images."""
    net = solver.test_nets[0]
    net.share_with(solver.net)
    return accuracy_of(net)


def accuracy_of(net):
    return np.mean([float(net.forward()['accuracy']) for _ in range(TEST_BATCHES)])


def calibrate(solver, arguments, databases):
    """A caffemodel with the trained weights and the range of every blob."""
    # In the TEST phase, but on training images.
    net = caffe.Net(generate.train_test(databases[0], databases[0]), caffe.TEST)
    net.share_with(solver.net)
    net.quant_mode = caffe.quantizer_mode.CAFFE_QUANT_OBSERVE
    for _ in range(CALIBRATION_BATCHES):
        net.forward()
    path = os.path.join(arguments.output, 'lenet_ranges.caffemodel')
    net.save(path)
    return path


def test_integers(solver, arguments, databases):
    """Accuracy of the trained net in float, half, INT16 and INT8."""
    weights = calibrate(solver, arguments, databases)
    for name in ('float', 'half', *INTEGERS):
        data_type = TYPES.get(name, INTEGERS.get(name))
        net = caffe.Net(generate.train_test(*databases, data_type=data_type), caffe.TEST,
                        weights=weights)
        begin = time.perf_counter()
        accuracy = accuracy_of(net)
        yield name, accuracy, time.perf_counter() - begin


def main():
    arguments = parse_arguments()
    os.makedirs(arguments.output, exist_ok=True)
    data = arguments.data
    if data is None:
        data = os.path.join(HERE, 'data')
        create_mnist.download(data)
    databases = create_mnist.create(
        data, os.path.dirname(os.path.abspath(arguments.output)), arguments.tools)
    if arguments.device is not None:
        caffe.set_device(arguments.device)
    solver = make_solver(arguments, databases)
    begin = time.perf_counter()
    solver.solve()
    seconds = time.perf_counter() - begin
    print('LeNet, %s, %s: %d iterations in %.1f s, test accuracy %.4f'
          % (arguments.type, arguments.device or 'best device', solver.iter, seconds,
             test_accuracy(solver)))
    if arguments.type == 'float' and not arguments.no_table:
        print('%-9s %9s %9s' % ('type', 'accuracy', 'seconds'))
        for name, accuracy, seconds in test_integers(solver, arguments, databases):
            print('%-9s %8.2f%% %9.2f' % (name, 100 * accuracy, seconds))


if __name__ == '__main__':
    main()
