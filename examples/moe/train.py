#!/usr/bin/env python3
"""Trains a mixture of experts on MNIST or CIFAR-10 and draws which expert takes which class.

With --dense also the net without a gate that multiplies as often. With --types the trained nets are
also stored in these types, and their accuracies on training and test images printed (as tables 4.8
and 4.9 of Tschopp's thesis of 2018). The drawing has a row for each
expert; a column is a class, and its numbers are the shares of the weight that the gate gives to the
experts on the test images of the class.
"""
import argparse
import gzip
import os
import sys
import tempfile
import time

from moe_nets import (BALANCE, BALANCES, CHANNELS, CLASSES, FIRST_SUPER_CLASS, HERE, ROOT, Mixture,
                      caffe)
import numpy as np  # noqa: E402

from caffe.proto import caffe_pb2  # noqa: E402

sys.path.append(os.path.join(ROOT, 'examples', 'cifar10'))
TEST_BATCH = 100
MOVE = 4  # pixels


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--set', choices=sorted(CLASSES), default='mnist')
    parser.add_argument('--data', required=True, metavar='FOLDER',
                        help='with the four files of MNIST, or as of ../cifar10/create_cifar10.py')
    parser.add_argument('--device', help='cpu, cuda:0, opencl:1, … (default: the best there is)')
    parser.add_argument('--experts', type=int, default=8)
    parser.add_argument('--select', type=int, default=2, help='experts of an image')
    parser.add_argument('--channels', type=int, help='of an expert\'s first convolution (default: '
                        + ', '.join('%d on %s' % (CHANNELS[data], data) for data in CHANNELS) + ')')
    parser.add_argument('--balance', choices=sorted(BALANCES),
                        help='how the use of the experts is made even (default: '
                        + ', '.join('%s on %s' % (BALANCE[data], data) for data in BALANCE) + ')')
    parser.add_argument('--capacity', type=float, default=0, metavar='C',
                        help='an expert computes at most C times the items of even use in training')
    parser.add_argument('--super-classes', action='store_true',
                        help='the gate also learns to tell two groups of classes apart')
    parser.add_argument('--iterations', type=int, default=2000)
    parser.add_argument('--batch', type=int, default=64)
    parser.add_argument('--rate', type=float, default=0.001)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--images', type=int, default=10000, help='test images')
    parser.add_argument('--dense', action='store_true', help='also train the dense net')
    parser.add_argument('--types', nargs='*', choices=['half', 'bfloat16', 'int16', 'int8'],
                        default=[], metavar='TYPE', help='of half, bfloat16, int16, int8')
    parser.add_argument('--output', default=HERE, metavar='FOLDER', help='for the drawing')
    return parser.parse_args()


# ---- The data: images of mean 0 and deviation 1, and labels.

def read_idx(folder, name, header):
    for end, opened in (('', open), ('.gz', gzip.open)):
        path = os.path.join(folder, name + end)
        if os.path.exists(path):
            with opened(path, 'rb') as file:
                return np.frombuffer(file.read(), np.uint8, offset=header)
    sys.exit('%s has no %s' % (folder, name))


def load_mnist(folder):
    return [(read_idx(folder, part + '-images-idx3-ubyte', 16).reshape(-1, 1, 28, 28),
             read_idx(folder, part + '-labels-idx1-ubyte', 8)) for part in ('train', 't10k')]


def load_cifar10(folder):
    import create_cifar10
    scratch = os.path.join(ROOT, 'build', 'cifar10', 'moe')
    if not os.path.exists(os.path.join(scratch, create_cifar10.BATCHES[-1])):
        os.makedirs(scratch, exist_ok=True)
        create_cifar10.unpack(folder, scratch)
    sets = []
    for names in (create_cifar10.BATCHES[:5], create_cifar10.BATCHES[5:]):
        records = np.concatenate([np.fromfile(os.path.join(scratch, name), np.uint8)
                                  for name in names]).reshape(-1, 3073)
        sets.append((records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]))
    return sets


def load(arguments):
    train, test = dict(mnist=load_mnist, cifar10=load_cifar10)[arguments.set](arguments.data)
    mean, deviation = train[0].mean(), train[0].std()

    def normalized(images):
        return (images.astype(np.float32) - mean) / deviation
    return (normalized(train[0]), train[1]), (normalized(test[0]), test[1])


def moved_and_mirrored(images, random):
    """Each image moved by at most MOVE pixels in both directions, and half of them mirrored."""
    count, _, height, width = images.shape
    padded = np.pad(images, ((0, 0), (0, 0), (MOVE, MOVE), (MOVE, MOVE)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width), axis=(2, 3))
    rows, columns = random.integers(2 * MOVE + 1, size=(2, count))
    moved = windows[np.arange(count), :, rows, columns]
    mirrored = random.integers(2, size=count, dtype=bool)
    moved[mirrored] = moved[mirrored][..., ::-1]
    return moved


def super_classes(labels, data):
    return 1 - np.isin(labels, FIRST_SUPER_CLASS[data])


# ---- Training and testing.

def train(sizes, data, arguments):
    """A trained test net."""
    solver = caffe.get_solver(caffe_pb2.SolverParameter(
        net_param=sizes.make(arguments.batch, loss=True), type='Adam', base_lr=arguments.rate,
        momentum=0.9, momentum2=0.999, weight_decay=1e-4, lr_policy='poly', power=1,
        max_iter=arguments.iterations, random_seed=arguments.seed, snapshot_after_train=False))
    images, labels = data
    random = np.random.default_rng(arguments.seed)
    order = np.zeros(0, np.int64)
    for iteration in range(arguments.iterations):
        if len(order) < arguments.batch:
            order = random.permutation(len(images))
        chosen, order = order[:arguments.batch], order[arguments.batch:]
        batch = images[chosen]
        if arguments.set == 'cifar10':
            batch = moved_and_mirrored(batch, random)
        solver.net.blobs['data'].data[...] = batch
        solver.net.blobs['label'].data[...] = labels[chosen]
        if 'super_label' in solver.net.blobs:
            solver.net.blobs['super_label'].data[...] = super_classes(labels[chosen], arguments.set)
        loss = solver.step(1)
        if (iteration + 1) % 500 == 0:
            print('iteration %d of %d, loss %.3f' % (iteration + 1, arguments.iterations, loss),
                  flush=True)
    net = caffe.Net(sizes.make(TEST_BATCH, loss=False), caffe.TEST)
    net.share_with(solver.net)
    return net


def selected_weights(gate, select, bias=0):
    """The shares of the selected experts, whose sum is 1; 0 for the others. The bias counts in the
    selection alone."""
    kept = np.sort(gate + bias, axis=1)[:, -select][:, None]
    weights = np.where(gate + bias >= kept, gate, 0)
    return weights / weights.sum(1, keepdims=True)


def test(net, sizes, data, count):
    """The percentage of right images, and for a mixture the weight of each expert for each class, for
    how many images it is selected, and the percentage of right super-classes."""
    images, labels = data
    right, shares, used = 0, np.zeros((sizes.experts, 10)), np.zeros(sizes.experts)
    right_super = 0
    # With `balance_rate` the bias of the selection is the last blob of the layer.
    biased = 'balance_rate' in BALANCES[sizes.balance] and sizes.select
    bias = np.array(net.params['moe'][-1].data) if biased else 0
    for begin in range(0, count // TEST_BATCH * TEST_BATCH, TEST_BATCH):
        part = slice(begin, begin + TEST_BATCH)
        tops = net.forward(data=images[part])
        right += (np.asarray(tops['score']).reshape(TEST_BATCH, -1).argmax(1) == labels[part]).sum()
        if sizes.select:
            weights = selected_weights(np.array(tops['gate']), sizes.select, bias)
            np.add.at(shares.T, labels[part], weights)
            used += (weights > 0).sum(0)
        if sizes.super_classes:
            found = np.asarray(tops['super']).argmax(1)
            right_super += (found == super_classes(labels[part], sizes.data)).sum()
    percent = 100 / (count // TEST_BATCH * TEST_BATCH)
    return percent * right, shares, used, percent * right_super


# ---- Other types.

CALIBRATION = 20  # batches of training images


def in_type(net, sizes, kind, images):
    """The trained net in a type, calibrated on the first images."""
    batches = [dict(data=images[begin:begin + TEST_BATCH])
               for begin in range(0, CALIBRATION * TEST_BATCH, TEST_BATCH)]
    with tempfile.TemporaryDirectory() as folder:
        weights, out = os.path.join(folder, 'trained.caffemodel'), os.path.join(folder, kind)
        net.save(weights)
        caffe.quantize((sizes.make(TEST_BATCH, loss=False), weights), batches, type=kind, out=out)
        return caffe.Net(out + '.prototxt', caffe.TEST, weights=out + '.caffemodel')


def print_types(name, net, sizes, training, testing, arguments):
    """A row for each type: the percentages of right images."""
    for kind in ['float'] + arguments.types:
        typed = net if kind == 'float' else in_type(net, sizes, kind, training[0])
        found = [test(typed, sizes, data, arguments.images)[0] for data in (training, testing)]
        print('| %s | %s | %.2f | %.2f |' % (name, kind, *found), flush=True)


# ---- The drawing.

def draw(path, shares, names, title):
    import matplotlib
    matplotlib.use('Agg')
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(figsize=(8, 0.5 * len(shares) + 2))
    drawing = axes.imshow(shares, cmap='Blues', vmin=0, aspect='auto')
    for (expert, label), share in np.ndenumerate(shares):
        axes.text(label, expert, '%.0f' % (100 * share), ha='center', va='center', fontsize=8,
                  color='white' if share > 0.6 * shares.max() else 'black')
    axes.set_xticks(range(len(names)), names, rotation=30)
    axes.set_yticks(range(len(shares)), ['expert %d' % expert for expert in range(len(shares))])
    axes.set_title(title)
    figure.colorbar(drawing, label='share of the weight')
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def main():
    arguments = parse_arguments()
    caffe.set_logging_disabled(True)
    if arguments.device:
        caffe.set_device(arguments.device)
    training, testing = load(arguments)
    mixture = Mixture(arguments.set, arguments.experts, arguments.select, arguments.channels,
                      arguments.balance, arguments.capacity, arguments.super_classes)
    begin = time.perf_counter()
    mixture_net = train(mixture, training, arguments)
    accuracy, shares, used, right_super = test(mixture_net, mixture, testing, arguments.images)
    print('mixture, %d of %d experts with %d channels: %.2f %% right, %.1f s' % (
        mixture.select, mixture.experts, mixture.channels, accuracy, time.perf_counter() - begin))
    use = used / used.sum() * mixture.experts
    print('use of the experts, 1 is uniform: ' + ' '.join('%.2f' % value for value in use))
    if mixture.super_classes:
        print('super-classes: %.2f %% right' % right_super)
    if arguments.dense:
        dense = mixture.dense()
        begin = time.perf_counter()
        dense_net = train(dense, training, arguments)
        found, *_ = test(dense_net, dense, testing, arguments.images)
        print('dense, %d channels: %.2f %% right, %.1f s' % (
            dense.channels, found, time.perf_counter() - begin))
    if arguments.types:
        print('| net | type | training, % | test, % |\n|---|---|---:|---:|')
        print_types('mixture', mixture_net, mixture, training, testing, arguments)
        if arguments.dense:
            print_types('dense', dense_net, dense, training, testing, arguments)
    path = os.path.join(arguments.output, '%s_experts.png' % arguments.set)
    draw(path, shares / np.maximum(shares.sum(0, keepdims=True), 1e-9), CLASSES[arguments.set],
         '%s: %.2f %% right, in %% of the weight of a class' % (arguments.set, accuracy))
    print('wrote', os.path.abspath(path))


if __name__ == '__main__':
    main()
