#!/usr/bin/env python3
"""Trains CIFAR-10 quick with the schedule of Caffe's example, and draws loss and accuracy.

4,000 iterations with one rate, a snapshot, and 1,000 more from it with a tenth of the rate.
"""
import argparse
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, 'models', 'cifar10_quick')]
sys.path.append(os.path.join(ROOT, 'python'))  # unless it is installed

import caffe  # noqa: E402  (first: its error says how to install missing packages)
from google.protobuf import text_format  # noqa: E402
import matplotlib  # noqa: E402
matplotlib.use('Agg')
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

from caffe.proto import caffe_pb2  # noqa: E402
import create_cifar10  # noqa: E402
import generate  # noqa: E402

TYPES = {'float': caffe_pb2.CAFFE_FLOAT, 'half': caffe_pb2.CAFFE_HALF,
         'bfloat16': caffe_pb2.CAFFE_BFLOAT16}
DISPLAY, TEST_INTERVAL, TEST_BATCHES = 100, 500, 100


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--data', help='see create_cifar10.py (default: download)')
    parser.add_argument('--device', help='cpu, cuda:0, opencl:1, … (default: the best there is)')
    parser.add_argument('--type', choices=TYPES, default='float')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--fraction', type=float, default=1.0,
                        help='of the schedule\'s iterations, for a quick look')
    parser.add_argument('--output', default=os.path.join(ROOT, 'build', 'cifar10', 'quick'),
                        help='folder for nets, snapshots and quick.png; the LMDBs go to its parent')
    parser.add_argument('--tools', help='folder with convert_cifar_data')
    return parser.parse_args()


def settings(arguments, net_file, suffix=''):
    parameter = caffe_pb2.SolverParameter()
    name = 'cifar10_quick_solver%s.prototxt' % suffix
    with open(os.path.join(ROOT, 'models', 'cifar10_quick', name)) as file:
        text_format.Parse(file.read(), parameter)
    parameter.net = net_file
    parameter.max_iter = max(1, round(parameter.max_iter * arguments.fraction))
    parameter.snapshot = parameter.max_iter
    parameter.snapshot_prefix = os.path.join(arguments.output, 'quick')
    parameter.random_seed = arguments.seed
    # The script runs the tests itself, to draw their results.
    parameter.ClearField('test_iter')
    parameter.ClearField('test_interval')
    parameter.ClearField('net')
    parameter.train_net = net_file
    return parameter


def accuracy(net, solver):
    net.share_with(solver.net)
    return float(np.mean([float(net.forward()['accuracy']) for _ in range(TEST_BATCHES)]))


def draw(path, losses, accuracies):
    figure, left = plt.subplots(figsize=(7, 4))
    left.plot(*zip(*losses), color='tab:blue', label='training loss')
    left.set_xlabel('iteration')
    left.set_ylabel('training loss', color='tab:blue')
    right = left.twinx()
    right.plot(*zip(*accuracies), color='tab:red', marker='o', label='test accuracy')
    right.set_ylabel('test accuracy', color='tab:red')
    figure.tight_layout()
    figure.savefig(path)


def main():
    arguments = parse_arguments()
    os.makedirs(arguments.output, exist_ok=True)
    train_db, test_db, mean = create_cifar10.create(
        arguments.data, os.path.dirname(os.path.abspath(arguments.output)), arguments.tools)
    net_file = os.path.join(arguments.output, 'train_test.prototxt')
    with open(net_file, 'w') as file:
        print(generate.train_test(train_db, test_db, mean, TYPES[arguments.type]), file=file)
    if arguments.device is not None:
        caffe.set_device(arguments.device)

    losses, accuracies = [], []
    test_net = caffe.Net(net_file, caffe.TEST)
    solver = None
    begin = time.perf_counter()
    for suffix in ('', '_lr1'):
        parameter = settings(arguments, net_file, suffix)
        state = os.path.join(arguments.output, 'quick_iter_%d.solverstate' % solver.iter
                             ) if solver else None
        solver = caffe.get_solver(parameter)
        if state:
            solver.restore(state)
        while solver.iter < parameter.max_iter:
            losses.append((solver.iter, solver.step(min(DISPLAY, parameter.max_iter - solver.iter))))
            if solver.iter % TEST_INTERVAL == 0 or solver.iter == parameter.max_iter:
                accuracies.append((solver.iter, accuracy(test_net, solver)))
                print('iteration %5d  loss %.4f  test accuracy %.4f'
                      % (solver.iter, losses[-1][1], accuracies[-1][1]), flush=True)
    seconds = time.perf_counter() - begin
    picture = os.path.join(arguments.output, 'quick.png')
    draw(picture, losses, accuracies)
    print('CIFAR-10 quick, %s, %s: %d iterations in %.1f s, test accuracy %.4f; curves in %s'
          % (arguments.type, arguments.device or 'best device', solver.iter, seconds,
             accuracies[-1][1], picture))


if __name__ == '__main__':
    main()
