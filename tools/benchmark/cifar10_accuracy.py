#!/usr/bin/env python3
"""Trains CIFAR-10 quick here and in PyTorch, for several seeds: same net, images, order, schedule.

Our side is examples/cifar10/train_quick.py. PyTorch runs on the GPU in float, without TF32. The
report has the test accuracy when the rate changes (4,000 iterations), after 4,500 and at the end.
"""
import argparse
import datetime
import os
import re
import statistics
import subprocess
import sys

from facts import commit, processor, write_report

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CHECKED = (4000, 4500, 5000)
DEVIATIONS = (0.0001, 0.01, 0.01, 0.1, 0.1)  # of the initial weights, layer by layer


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--data', required=True, help='as of examples/cifar10/create_cifar10.py')
    parser.add_argument('--device', default='cuda:0', help='ours: cpu, cuda:0, opencl:0, …')
    parser.add_argument('--type', choices=('float', 'half', 'bfloat16'), default='float', help='ours')
    parser.add_argument('--seeds', type=int, default=8)
    parser.add_argument('--scratch', default=os.path.join(ROOT, 'build', 'cifar10', 'accuracy'))
    parser.add_argument('--peer-python', default=sys.executable, help='an interpreter with PyTorch')
    parser.add_argument('--output', help='a Markdown file to write')
    parser.add_argument('--worker', metavar='FOLDER', help=argparse.SUPPRESS)
    return parser.parse_args()


def run(command):
    """The accuracies that a process prints as 'iteration N … accuracy A'."""
    answer = subprocess.run(command, env=dict(os.environ, CAFFE_LOG='warning'), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if answer.returncode != 0:
        sys.exit('%s\n%s' % (' '.join(command), answer.stdout))
    found = dict(re.findall(r'iteration +(\d+) .*accuracy ([0-9.]+)', answer.stdout))
    return [float(found[str(iteration)]) for iteration in CHECKED]


def ours(arguments, seed):
    return run([sys.executable, os.path.join(ROOT, 'examples', 'cifar10', 'train_quick.py'),
                '--data', arguments.data, '--device', arguments.device, '--type', arguments.type,
                '--seed', str(seed), '--output', os.path.join(arguments.scratch, 'run')])


def peers(arguments, seed, folder):
    return run([arguments.peer_python, os.path.abspath(__file__), '--data', arguments.data,
                '--seeds', str(seed), '--worker', folder])


def work(folder, seed):
    import numpy as np
    import torch
    from torch import nn
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(seed)

    def load(names):
        records = np.concatenate([np.fromfile(os.path.join(folder, name), np.uint8)
                                  for name in names]).reshape(-1, 3073)
        images = torch.tensor(records[:, 1:].reshape(-1, 3, 32, 32)).cuda().float()
        return images, torch.tensor(records[:, 0].astype(np.int64)).cuda()

    images, labels = load(['data_batch_%d.bin' % i for i in range(1, 6)])
    test_images, test_labels = load(['test_batch.bin'])
    mean = images.mean(0, keepdim=True)
    images -= mean
    test_images -= mean

    def pool(layer):
        return layer(3, 2, ceil_mode=True)

    net = nn.Sequential(
        nn.Conv2d(3, 32, 5, padding=2), pool(nn.MaxPool2d), nn.ReLU(),
        nn.Conv2d(32, 32, 5, padding=2), nn.ReLU(), pool(nn.AvgPool2d),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), pool(nn.AvgPool2d),
        nn.Flatten(), nn.Linear(1024, 64), nn.Linear(64, 10)).cuda()
    layers = [layer for layer in net if hasattr(layer, 'weight')]
    for layer, deviation in zip(layers, DEVIATIONS):
        nn.init.normal_(layer.weight, 0, deviation)
        nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD([dict(params=[layer.weight for layer in layers]),
                                 dict(params=[layer.bias for layer in layers])],
                                lr=0.001, momentum=0.9, weight_decay=0.004)
    for iteration in range(1, CHECKED[-1] + 1):
        rate = 0.001 if iteration <= CHECKED[0] else 0.0001
        for group, factor in zip(optimizer.param_groups, (1, 2)):
            group['lr'] = factor * rate
        first = (iteration - 1) * 100 % len(labels)
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(images[first:first + 100]),
                                    labels[first:first + 100]).backward()
        optimizer.step()
        if iteration in CHECKED:
            with torch.no_grad():
                right = (net(test_images).argmax(1) == test_labels).float().mean().item()
            print('iteration %d accuracy %.4f' % (iteration, right), flush=True)


def report(arguments, rows):
    now = datetime.datetime.now(datetime.timezone.utc)
    lines = ['# CIFAR-10 quick on %s in %s, and in PyTorch' % (arguments.device, arguments.type), '',
             '* Date: %s UTC; commit %s' % (now.strftime('%Y-%m-%d %H:%M'), commit()),
             '* Host: %s' % processor(), '',
             '| seed | ' + ' | '.join('ours, %d' % i for i in CHECKED) + ' | ' +
             ' | '.join('PyTorch, %d' % i for i in CHECKED) + ' |', '|---:' * 7 + '|']
    for seed, values in rows:
        lines.append('| %d | %s |' % (seed, ' | '.join('%.4f' % value for value in values)))
    if len(rows) > 1:
        columns = list(zip(*(values for _, values in rows)))
        for name, function in (('mean', statistics.mean), ('deviation', statistics.stdev)):
            lines.append('| %s | %s |' % (name, ' | '.join('%.4f' % function(c) for c in columns)))
    return '\n'.join(lines) + '\n'


def main():
    arguments = parse_arguments()
    if arguments.worker:
        work(arguments.worker, arguments.seeds)
        return
    sys.path.insert(0, os.path.join(ROOT, 'examples', 'cifar10'))
    import create_cifar10
    folder = os.path.join(arguments.scratch, 'binary')
    if not os.path.exists(os.path.join(folder, create_cifar10.BATCHES[-1])):
        os.makedirs(folder, exist_ok=True)
        create_cifar10.unpack(arguments.data, folder)
    rows = []
    for seed in range(1, arguments.seeds + 1):
        rows.append((seed, ours(arguments, seed) + peers(arguments, seed, folder)))
        print(seed, *('%.4f' % value for value in rows[-1][1]), flush=True)
    write_report(report(arguments, rows), arguments.output)


if __name__ == '__main__':
    main()
