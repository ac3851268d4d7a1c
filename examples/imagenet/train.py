#!/usr/bin/env python3
"""Trains a net of models/ on ILSVRC2012 with its published schedule, and tests it.

The databases are those of create_imagenet.py. Ctrl-C ends the training; --snapshot continues it.
"""
import argparse
import os
import time

from imagenet_net import HERE, MODELS, THESIS, TYPES, accuracy_line, caffe, train_val
from caffe.proto import caffe_pb2

# Rate, how it changes, iterations, batch, weight decay.
STEPS = dict(lr_policy='step', gamma=0.1, stepsize=100000)
POLY = dict(lr_policy='poly', power=1)
SCHEDULES = {
    'alexnet': (0.01, STEPS, 450000, 256, 5e-4), 'caffenet': (0.01, STEPS, 450000, 256, 5e-4),
    'caffenet_moe': (0.01, STEPS, 450000, 128, 5e-4), THESIS: (0.01, STEPS, 450000, 128, 5e-4),
    'googlenet': (0.01, dict(lr_policy='poly', power=0.5), 2400000, 32, 2e-4),
    'mobilenet_v1': (0.01, STEPS, 450000, 256, 5e-4),
    'resnet50': (0.1, dict(lr_policy='step', gamma=0.1, stepsize=150000), 600000, 256, 1e-4),
    'squeezenet': (0.04, POLY, 170000, 512, 2e-4), 'vgg16': (0.01, STEPS, 370000, 256, 5e-4)}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--model', choices=MODELS, default='caffenet')
    parser.add_argument('--data', default=HERE, metavar='FOLDER')
    parser.add_argument('--device', help='cpu, cuda:0, opencl:1, … (default: the best there is)')
    parser.add_argument('--type', choices=TYPES, default='float')
    parser.add_argument('--iterations', type=int, help='default: the schedule\'s')
    parser.add_argument('--batch', type=int, help='images at a time (default: the schedule\'s)')
    parser.add_argument('--accumulate', type=int, default=1, metavar='N',
                        help='passes of an iteration, each of batch / N images')
    parser.add_argument('--rate', type=float, help='default: the schedule\'s')
    parser.add_argument('--weights', metavar='FILE', help='a caffemodel to begin with')
    parser.add_argument('--snapshot', metavar='FILE', help='a solverstate to continue from')
    parser.add_argument('--test_batches', type=int, default=1000)
    parser.add_argument('--output', metavar='PREFIX', help='default: the name of the model')
    return parser.parse_args()


def settings(arguments):
    rate, policy, iterations, batch, decay = SCHEDULES[arguments.model]
    batch = arguments.batch or batch
    if batch % arguments.accumulate:
        raise SystemExit('%d images cannot be divided by %d passes' % (batch, arguments.accumulate))
    net = train_val(arguments.model, arguments.data, TYPES[arguments.type],
                    train_batch=batch // arguments.accumulate)
    iterations = arguments.iterations or iterations
    return caffe_pb2.SolverParameter(
        net_param=net, type='SGD', base_lr=arguments.rate or rate, momentum=0.9,
        weight_decay=decay, max_iter=iterations, iter_size=arguments.accumulate,
        display=max(1, min(20, iterations // 10)), snapshot=10000,
        snapshot_prefix=arguments.output or arguments.model, **policy)


def main():
    arguments = parse_arguments()
    if arguments.device:
        caffe.set_device(arguments.device)
    solver = caffe.get_solver(settings(arguments))
    solver.frees_memory = True
    if arguments.weights:
        solver.net.copy_from(arguments.weights)
    begin = time.perf_counter()
    solver.solve(arguments.snapshot) if arguments.snapshot else solver.solve()
    seconds = time.perf_counter() - begin
    path = '%s_trained.caffemodel' % (arguments.output or arguments.model)
    solver.net.save(path)
    test = caffe.Net(train_val(arguments.model, arguments.data, TYPES[arguments.type]),
                     caffe.TEST, weights=path)
    print('%d iterations in %.1f s; %s' % (solver.iter, seconds,
                                           accuracy_line(test, arguments.test_batches)))
    print('The weights are in', os.path.abspath(path))


if __name__ == '__main__':
    main()
