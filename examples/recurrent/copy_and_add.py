#!/usr/bin/env python3
"""copy_and_add.py copy|add: an LSTM remembers what it read many steps ago.

copy: symbols come first, then --delay blanks. At the end, marks ask for the symbols one by one.
add: a sequence of numbers, two of which are marked. At its end the LSTM must know their sum.

Prints the error while it trains, and the result on new sequences, in float and in int8. Exits with
1 if the task is not solved (--no-check: never).
"""
import argparse
import os
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, os.pardir, os.pardir, 'python'))  # unless it is installed

import caffe  # noqa: E402  (first: its error says how to install missing packages)
import numpy as np  # noqa: E402
from caffe import layers as L  # noqa: E402


class Copy:
    """`symbols` of `kinds` come first, each with inputs for its position. Blanks
    follow, and marks 1, 2, …, which ask for the symbols one by one.
    """

    def __init__(self, args):
        self.symbols, self.kinds, self.delay = args.symbols, args.kinds, args.delay
        self.steps, self.outputs = 2 * self.symbols + self.delay, self.kinds
        self.blank = self.kinds * self.symbols
        self.inputs = self.blank + 1 + self.symbols
        self.target_shape, self.longest = [self.symbols, args.items], self.steps

    def batch(self, random, items):
        rows = np.eye(self.inputs)
        x = np.zeros((self.steps, items, self.inputs))
        x[:] = rows[self.blank]
        symbols = random.randint(self.kinds, size=(self.symbols, items))
        x[:self.symbols] = rows[symbols + self.kinds * np.arange(self.symbols)[:, np.newaxis]]
        x[-self.symbols:] = rows[self.blank + 1:, np.newaxis]
        return x, symbols

    def loss(self, net, scores, target):
        return L.SoftmaxWithLoss(scores, target, softmax_param=dict(axis=2))

    def answers(self):
        return self.symbols

    def result(self, scores, target):
        wrong = 1 - np.mean(scores.argmax(axis=2) == target)
        return wrong, '%.2f%% of the symbols are wrong' % (100 * wrong)

    solved, chance = 0.01, property(lambda self: 1 - 1 / self.kinds)


class Add:
    """Two rows: numbers in [0, 1], and marks at one number in each half."""

    def __init__(self, args):
        self.delay = args.delay
        self.steps, self.inputs, self.outputs = args.delay, 2, 1
        self.target_shape, self.longest = [1, args.items, 1], self.steps

    def batch(self, random, items):
        x = np.zeros((self.steps, items, 2))
        x[:, :, 0] = random.uniform(size=(self.steps, items))
        half, each = self.steps // 2, np.arange(items)
        x[random.randint(half, size=items), each, 1] = 1
        x[random.randint(half, self.steps, size=items), each, 1] = 1
        return x, (x[:, :, 0] * x[:, :, 1]).sum(axis=0).reshape(1, items, 1)

    def loss(self, net, scores, target):
        return L.EuclideanLoss(scores, target)

    def answers(self):
        return 1

    def result(self, scores, target):
        error = np.mean((scores - target) ** 2)
        return error, 'mean square error %.5f' % error

    solved, chance = 0.002, 1 / 6  # the sum of two numbers has a variance of 1/6


def make_net(task, args, has_loss=True):
    """x [T, N, D] -> LSTM -> its last steps -> scores."""
    net = caffe.NetSpec()
    net.x, net.cont = L.Input(ntop=2, shape=[
        dict(dim=[task.steps, args.items, task.inputs]), dict(dim=[task.steps, args.items])])
    net.lstm = getattr(L, args.layer)(net.x, net.cont, recurrent_param=dict(
        num_output=args.hidden, weight_filler=dict(type='xavier')))
    before = task.steps - task.answers()
    net.before, net.last = L.Slice(net.lstm, ntop=2, axis=0, slice_point=before)
    net.silence = L.Silence(net.before, ntop=0)
    net.scores = L.InnerProduct(net.last, num_output=task.outputs, axis=2,
                                weight_filler=dict(type='xavier'))
    if has_loss:
        net.target = L.Input(shape=[dict(dim=task.target_shape)])
        net.loss = task.loss(net, net.scores, net.target)
    return net.to_proto()


def remember(net, args, longest, random):
    """Forget gates that stay open for times up to that of the task (Tallec and Ollivier, 2018)."""
    bias, h = net.params['lstm'][1].data, args.hidden
    spans = np.log(random.uniform(1, longest - 1, size=h))
    if args.layer == 'LSTM':  # i, f, o, g
        bias[h:2 * h] = spans
        bias[:h] = -spans
    else:  # r, z, n
        bias[h:2 * h] = spans


def continued(task, args):
    """cont: every sequence begins at the first step."""
    cont = np.ones((task.steps, args.items))
    cont[0] = 0
    return cont


def fill(net, batch, cont):
    net.blobs['x'].data[...], net.blobs['target'].data[...] = batch
    net.blobs['cont'].data[...] = cont


def error_of(net, batches, task, cont):
    """The mean error on these batches."""
    return np.mean([task.result(net.forward(x=x, cont=cont)['scores'], target)[0]
                    for x, target in batches])


def in_int8(trained, batches, task, args):
    """The net with the weights of `trained` and products of int8, calibrated on the batches."""
    with tempfile.TemporaryDirectory() as folder:
        weights, out = os.path.join(folder, 'trained.caffemodel'), os.path.join(folder, 'int8')
        trained.save(weights)
        caffe.quantize((make_net(task, args, has_loss=False), weights),
                       [dict(x=x, cont=continued(task, args)) for x, _ in batches],
                       type='int8', out=out)
        return caffe.Net(out + '.prototxt', caffe.TEST, weights=out + '.caffemodel')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('task', choices=['copy', 'add'])
    parser.add_argument('--delay', type=int, default=100, help='steps to remember')
    parser.add_argument('--symbols', type=int, default=2)
    parser.add_argument('--kinds', type=int, default=8, help='of symbols')
    parser.add_argument('--layer', choices=['LSTM', 'GRU'], default='LSTM')
    parser.add_argument('--hidden', type=int, default=48)
    parser.add_argument('--items', type=int, default=32, help='sequences in a batch')
    parser.add_argument('--iterations', type=int, default=3000, help='at most')
    parser.add_argument('--rate', type=float, default=0.005)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--no-check', action='store_true')
    args = parser.parse_args()

    task = (Copy if args.task == 'copy' else Add)(args)
    random = np.random.RandomState(args.seed)
    config = caffe.SolverParameter()
    config.net_param = make_net(task, args)
    config.type, config.base_lr, config.lr_policy = 'Adam', args.rate, 'step'
    config.stepsize, config.gamma = 1000, 0.4
    config.momentum, config.momentum2, config.clip_gradients = 0.9, 0.999, 1.0
    config.random_seed = args.seed
    solver = caffe.get_solver(config)
    remember(solver.net, args, task.longest, random)
    begin, results = time.time(), []
    for iteration in range(1, args.iterations + 1):
        fill(solver.net, task.batch(random, args.items), continued(task, args))
        solver.step(1)
        results.append(task.result(solver.net.blobs['scores'].data,
                                   solver.net.blobs['target'].data)[0])
        recent = np.mean(results[-50:])
        if iteration % 100 == 0:
            print('%5d iterations, %4.0f s: error %.5f' % (iteration, time.time() - begin, recent))
        if iteration >= 50 and recent < task.solved / 2:
            break
    test = caffe.Net(make_net(task, args, has_loss=False), caffe.TEST)
    test.share_with(solver.net)
    calibration = [task.batch(random, args.items) for _ in range(4)]
    batches = [task.batch(random, args.items) for _ in range(20)]
    error = error_of(test, batches, task, continued(task, args))
    print('%s, %d steps, after %d iterations and %.0f s: error %.5f on new sequences; '
          'chance has %.3f' % (args.task, task.steps, iteration, time.time() - begin, error,
                               task.chance))
    int8 = in_int8(test, calibration, task, args)
    print('in int8: error %.5f' % error_of(int8, batches, task, continued(task, args)))
    return 0 if args.no_check or error < task.solved else 1


if __name__ == '__main__':
    sys.exit(main())
