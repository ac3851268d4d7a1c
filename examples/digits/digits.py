#!/usr/bin/env python3
"""Trains a small net, similar to LeNet, on the handwritten digits of scikit-learn.

For every type and device: trains from the same seed, tests, and prints a row of a table (type,
device, accuracy, milliseconds per image, memory). The integer types quantize the net that was
trained in float. Loss curves and confusion matrices go to the output folder as PNG, the table as
results.json.
"""
import argparse
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, os.pardir, os.pardir, 'python'))  # unless it is installed

import caffe  # noqa: E402  (first: its error says how to install missing packages)
import numpy as np  # noqa: E402
from caffe import layers as L, params as P  # noqa: E402
from caffe.proto import caffe_pb2  # noqa: E402

TYPES = {'float': caffe_pb2.CAFFE_FLOAT, 'half': caffe_pb2.CAFFE_HALF,
         'bfloat16': caffe_pb2.CAFFE_BFLOAT16, 'double': caffe_pb2.CAFFE_DOUBLE,
         'int16': caffe_pb2.CAFFE_INT16_QUANTIZED, 'int8': caffe_pb2.CAFFE_INT8_QUANTIZED}
INTEGERS = ('int16', 'int8')
TRAIN_BATCH, TEST_BATCH = 64, 90
TEST_COUNT = 450
TIMED_SECONDS = 0.5


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--types', nargs='+', choices=TYPES, default=list(TYPES))
    parser.add_argument('--devices', nargs='+', metavar='DEVICE',
                        help='cpu, cuda:0, opencl:0, … (default: the CPU and every GPU)')
    parser.add_argument('--iterations', type=int, default=1000)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--output', default='digits', help='folder for pictures and nets')
    return parser.parse_args()


def load_digits(seed):
    """Images (N, 1, 8, 8) in [0, 1] and labels, shuffled, as two sets."""
    from sklearn.datasets import load_digits as load
    digits = load()
    order = np.random.RandomState(seed).permutation(len(digits.target))
    images = (digits.images[order] / 16).astype(np.float32)[:, np.newaxis]
    labels = digits.target[order]
    return ((images[TEST_COUNT:], labels[TEST_COUNT:]), (images[:TEST_COUNT], labels[:TEST_COUNT]))


def make_net(data_type, batch, training):
    """Two convolutions with pooling, two inner products; all of one type, but for the loss."""
    types = dict(bottom_data_type=data_type, compute_data_type=data_type, top_data_type=data_type)
    learned = dict(weight_filler=dict(type='xavier'), **types)
    pool = dict(pool=P.Pooling.MAX, kernel_size=2, stride=2, **types)
    net = caffe.NetSpec()
    net.data = L.Input(shape=dict(dim=[batch, 1, 8, 8]))
    net.conv1 = L.Convolution(net.data, num_output=16, kernel_size=3, pad=1, **learned)
    net.relu1 = L.ReLU(net.conv1, in_place=True, **types)
    net.pool1 = L.Pooling(net.relu1, **pool)
    net.conv2 = L.Convolution(net.pool1, num_output=32, kernel_size=3, pad=1, **learned)
    net.relu2 = L.ReLU(net.conv2, in_place=True, **types)
    net.pool2 = L.Pooling(net.relu2, **pool)
    net.ip1 = L.InnerProduct(net.pool2, num_output=64, **learned)
    net.relu3 = L.ReLU(net.ip1, in_place=True, **types)
    net.ip2 = L.InnerProduct(net.relu3, num_output=10, **learned)
    net.score = L.Quantizer(net.ip2, bottom_data_type=data_type, compute_data_type=data_type,
                            top_data_type=caffe_pb2.CAFFE_FLOAT)
    if training:
        net.label = L.Input(shape=dict(dim=[batch]))
        net.loss = L.SoftmaxWithLoss(net.score, net.label)
    else:
        net.prob = L.Softmax(net.score)
    proto = net.to_proto()
    proto.name = 'digits'
    return proto


def train(data_type, data, iterations, seed):
    """A solver after training, and the loss of every iteration."""
    images, labels = data
    solver = caffe.get_solver(caffe_pb2.SolverParameter(
        train_net_param=make_net(data_type, TRAIN_BATCH, training=True), type='SGD',
        base_lr=0.05, momentum=0.9, weight_decay=0.0005, lr_policy='poly', power=1,
        max_iter=iterations, random_seed=seed, snapshot_after_train=False))
    picks = np.random.RandomState(seed)
    losses = []
    for _ in range(iterations):
        batch = picks.choice(len(images), TRAIN_BATCH, replace=False)
        solver.net.blobs['data'].data[...] = images[batch]
        solver.net.blobs['label'].data[...] = labels[batch]
        losses.append(float(solver.step(1)))
    return solver, losses


def quantizable(solver, data):
    """A float net with the trained weights and the ranges of its blobs on the training images."""
    net = caffe.Net(make_net(TYPES['float'], TEST_BATCH, training=False), caffe.TEST)
    net.share_with(solver.net)
    net.quant_mode = caffe.quantizer_mode.CAFFE_QUANT_OBSERVE
    whole = len(data[0]) // TEST_BATCH * TEST_BATCH
    net.forward_all(data=data[0][:whole])
    return net


def memory(net):
    """Bytes of the net's blobs and parameters, without gradients."""
    blobs = list(net.blobs.values()) + [blob for blobs in net.params.values() for blob in blobs]
    return sum(blob.data.nbytes for blob in blobs)


def test(weights, data_type, data):
    """Confusion matrix (correct answer x given answer), milliseconds per image, bytes."""
    images, labels = data
    net = caffe.Net(make_net(data_type, TEST_BATCH, training=False), caffe.TEST, weights=weights)
    answers = net.forward_all(data=images)['prob'].argmax(axis=1)
    confusion = np.zeros((10, 10), int)
    np.add.at(confusion, (labels, answers), 1)
    times = []
    end = time.perf_counter() + TIMED_SECONDS
    while not times or time.perf_counter() < end:
        begin = time.perf_counter()
        net.forward(data=images[:TEST_BATCH])['prob'].sum()  # reading it waits for the device
        times.append(time.perf_counter() - begin)
    # The minimum: other processes can only make a batch slower.
    return confusion, min(times) * 1000 / TEST_BATCH, memory(net)


def plot(runs, folder):
    import matplotlib
    matplotlib.use('Agg')
    import matplotlib.pyplot as plt

    # A curve for each training; integer types are not trained.
    curves = {}
    for run in runs:
        curves.setdefault((run['trained'], run['device']), []).append(run)
    plt.figure(figsize=(8, 5))
    for (trained, device), of_curve in curves.items():
        # The mean of 20 iterations: single batches are noisy.
        losses = of_curve[0]['losses']
        width = min(20, len(losses))
        means = np.convolve(losses, np.ones(width) / width, mode='valid')
        quantized = [run['type'] for run in of_curve if run['type'] != trained]
        label = '%s, %s' % (trained, device)
        if quantized:
            label += ' (then quantized: %s)' % ', '.join(quantized)
        plt.semilogy(np.arange(len(means)) + width, means, label=label)
    plt.title('Training on handwritten digits, mean loss of %d iterations' % width)
    plt.xlabel('iteration')
    plt.ylabel('training loss')
    plt.legend()
    plt.savefig(os.path.join(folder, 'loss.png'), dpi=120, bbox_inches='tight')
    plt.close()

    columns = min(len(runs), 3)
    rows = -(-len(runs) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4.6 * columns, 5 * rows), squeeze=False)
    figure.suptitle('Test images by digit and answer', fontsize=14)
    for ax in axes.flat[len(runs):]:
        ax.set_axis_off()
    for ax, run in zip(axes.flat, runs):
        ax.imshow(run['confusion'], cmap='Blues')
        ax.set_title('%s, %s: %.2f %% right'
                     % (run['type'], run['device'], 100 * run['accuracy']), fontsize=12)
        ax.set_xlabel('answer')
        ax.set_ylabel('digit')
        ax.set_xticks(range(10))
        ax.set_yticks(range(10))
        for (row, column), count in np.ndenumerate(run['confusion']):
            if count:
                ax.text(column, row, count, ha='center', va='center', fontsize=10,
                        color='white' if row == column else 'black')
    figure.tight_layout()
    plt.savefig(os.path.join(folder, 'confusion.png'), dpi=120, bbox_inches='tight')
    plt.close()


def default_devices():
    return ['cpu'] + [device.name for device in caffe.devices() if device.is_gpu]


def main():
    arguments = parse_arguments()
    os.makedirs(arguments.output, exist_ok=True)
    train_data, test_data = load_digits(arguments.seed)
    print('%d digits for training, %d for testing, %d iterations of %d'
          % (len(train_data[0]), len(test_data[0]), arguments.iterations, TRAIN_BATCH))
    runs = []
    print('%-9s %-9s %9s %9s %11s' % ('type', 'device', 'accuracy', 'ms/image', 'memory'))
    for device in arguments.devices or default_devices():
        caffe.set_device(device)
        trainings = {}  # of this device: data type -> solver, losses
        for name in arguments.types:
            # Integer nets use the weights that were trained in float.
            trained = 'float' if name in INTEGERS else name
            if trained not in trainings:
                trainings[trained] = train(TYPES[trained], train_data, arguments.iterations,
                                           arguments.seed)
            solver, losses = trainings[trained]
            weights = os.path.join(arguments.output, 'digits_%s_%s.caffemodel'
                                   % (name, device.replace(':', '')))
            (quantizable(solver, train_data) if name in INTEGERS else solver.net).save(weights)
            confusion, milliseconds, used = test(weights, TYPES[name], test_data)
            accuracy = np.trace(confusion) / confusion.sum()
            runs.append(dict(type=name, device=device, trained=trained, accuracy=accuracy,
                             milliseconds_per_image=milliseconds, memory=used,
                             confusion=confusion, losses=losses))
            print('%-9s %-9s %8.2f%% %9.4f %7.2f MiB'
                  % (name, device, 100 * accuracy, milliseconds, used / 2 ** 20), flush=True)
    plot(runs, arguments.output)
    with open(os.path.join(arguments.output, 'results.json'), 'w') as file:
        json.dump(runs, file, default=lambda array: array.tolist())
    print('loss.png, confusion.png and results.json are in', arguments.output)


if __name__ == '__main__':
    main()
