#!/usr/bin/env python3
"""Measures nets on quiet cores, and on cores with one and with three busy processes.

Sides: Cortado, Cortado with another GOMP_SPINCOUNT (cortado-300000 is the default of GCC's OpenMP),
and PyTorch if it is installed. Every side is a process of its own on the same cores. They take
turns: while one computes, the others sleep.
"""
import argparse
import datetime
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time

from facts import commit, processor, write_report

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
WORKS = ('squeezenet', 'resnet20', 'lenet training')


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--works', default=','.join(WORKS), help='of %(default)s')
    parser.add_argument('--sides', default='cortado,cortado-300000,pytorch',
                        help='such as %(default)s')
    parser.add_argument('--busy', default='0,1,3', help='numbers of busy processes')
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--cores', help='comma-separated (default: the first allowed ones, as many '
                        'as threads)')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--seconds', type=float, default=2, help='of one side in one round')
    parser.add_argument('--peer-python', default=sys.executable, help='an interpreter with PyTorch')
    parser.add_argument('--output', help='a Markdown file to write')
    parser.add_argument('--worker', nargs=2, metavar=('SIDE', 'WORK'), help=argparse.SUPPRESS)
    return parser.parse_args()


# --- The sides: each work is a function that computes once. ---------------------------------------

def our_work(work):
    sys.path[:0] = [os.path.join(ROOT, 'python')]
    os.environ.setdefault('CAFFE_LOG', 'warning')
    import caffe
    from caffe import layers as L, params as P
    from caffe.proto import caffe_pb2
    caffe.set_mode_cpu()
    caffe.set_random_seed(1)
    if work == 'squeezenet':
        net = caffe.Net(os.path.join(ROOT, 'models', 'squeezenet', 'deploy.prototxt'), caffe.TEST)
        net.blobs['data'].reshape(1, 3, 227, 227)
        return net.forward
    spec = caffe.NetSpec()
    filler = dict(type='msra')
    if work == 'lenet training':
        spec.data, spec.label = L.Input(shape=[dict(dim=[64, 1, 28, 28]), dict(dim=[64])], ntop=2)
        top = L.Convolution(spec.data, num_output=20, kernel_size=5, weight_filler=filler)
        top = L.Pooling(top, pool=P.Pooling.MAX, kernel_size=2, stride=2)
        top = L.Convolution(top, num_output=50, kernel_size=5, weight_filler=filler)
        top = L.Pooling(top, pool=P.Pooling.MAX, kernel_size=2, stride=2)
        top = L.ReLU(L.InnerProduct(top, num_output=500, weight_filler=filler), in_place=True)
        spec.loss = L.SoftmaxWithLoss(L.InnerProduct(top, num_output=10, weight_filler=filler),
                                      spec.label)
        solver = caffe.get_solver(caffe_pb2.SolverParameter(
            net_param=spec.to_proto(), base_lr=0.001, momentum=0.9, lr_policy='fixed',
            random_seed=1))
        return lambda: solver.step(1)
    spec.data = L.Input(shape=dict(dim=[16, 3, 32, 32]))

    def convolution(bottom, outputs, stride=1, size=3):
        top = L.Convolution(bottom, num_output=outputs, kernel_size=size, pad=size // 2,
                            stride=stride, bias_term=False, weight_filler=filler)
        return L.Scale(L.BatchNorm(top, in_place=True), bias_term=True, in_place=True)

    top = L.ReLU(convolution(spec.data, 16), in_place=True)
    for outputs in (16, 32, 64):
        for block in range(3):
            stride = 2 if outputs > 16 and block == 0 else 1
            inner = L.ReLU(convolution(top, outputs, stride), in_place=True)
            other = convolution(top, outputs, stride, 1) if stride == 2 else top
            top = L.ReLU(L.Eltwise(convolution(inner, outputs), other), in_place=True)
    top = L.Pooling(top, pool=P.Pooling.AVE, global_pooling=True)
    spec.score = L.InnerProduct(top, num_output=10, weight_filler=filler)
    return caffe.Net(spec.to_proto(), caffe.TEST).forward


def peer_work(work, threads):
    import torch
    from torch import nn
    torch.set_num_threads(threads)
    torch.manual_seed(1)

    class Residual(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.inner = nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs),
                nn.ReLU(True), nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
                nn.BatchNorm2d(outputs))
            self.other = nn.Identity() if stride == 1 else nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

        def forward(self, x):
            return torch.relu_(self.inner(x) + self.other(x))

    class Fire(nn.Module):
        def __init__(self, inputs, squeeze, expand):
            super().__init__()
            self.squeeze = nn.Conv2d(inputs, squeeze, 1)
            self.small = nn.Conv2d(squeeze, expand, 1)
            self.large = nn.Conv2d(squeeze, expand, 3, padding=1)

        def forward(self, x):
            x = torch.relu_(self.squeeze(x))
            return torch.cat([torch.relu_(self.small(x)), torch.relu_(self.large(x))], 1)

    def pool():
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    if work == 'squeezenet':
        # The one of models/squeezenet: version 1.1.
        net = nn.Sequential(
            nn.Conv2d(3, 64, 3, 2), nn.ReLU(True), pool(), Fire(64, 16, 64), Fire(128, 16, 64), pool(),
            Fire(128, 32, 128), Fire(256, 32, 128), pool(), Fire(256, 48, 192), Fire(384, 48, 192),
            Fire(384, 64, 256), Fire(512, 64, 256), nn.Conv2d(512, 1000, 1), nn.ReLU(True),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Softmax(1)).eval()
        images = torch.randn(1, 3, 227, 227)
    elif work == 'resnet20':
        layers = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(True)]
        inputs = 16
        for outputs in (16, 32, 64):
            for block in range(3):
                layers.append(Residual(inputs, outputs, 2 if outputs > 16 and block == 0 else 1))
                inputs = outputs
        net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).eval()
        images = torch.randn(16, 3, 32, 32)
    else:
        net = nn.Sequential(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5),
                            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 500), nn.ReLU(True),
                            nn.Linear(500, 10))
        images, labels = torch.randn(64, 1, 28, 28), torch.arange(64) % 10
        optimizer = torch.optim.SGD(net.parameters(), 0.001, momentum=0.9)

        def train():
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images), labels).backward()
            optimizer.step()

        return train

    def infer():
        with torch.no_grad():
            net(images)

    return infer


def worker(arguments):
    side, work = arguments.worker
    try:
        run = peer_work(work, arguments.threads) if side == 'pytorch' else our_work(work)
    except ImportError as error:
        sys.exit(str(error))
    for _ in range(5):
        run()
    print('ready', flush=True)
    for line in sys.stdin:
        end = time.perf_counter() + float(line)
        times = []
        while len(times) < 5 or time.perf_counter() < end:
            start = time.perf_counter()
            run()
            times.append((time.perf_counter() - start) * 1000)
        print(json.dumps(times), flush=True)


# --- The report -----------------------------------------------------------------------------------

class Side:
    def __init__(self, name, work, arguments, cores):
        environment = dict(os.environ, OMP_NUM_THREADS=str(arguments.threads))
        for variable in ('GOMP_SPINCOUNT', 'OMP_WAIT_POLICY'):
            environment.pop(variable, None)
        if name.startswith('cortado-'):
            environment['GOMP_SPINCOUNT'] = name.split('-')[1]
        interpreter = arguments.peer_python if name == 'pytorch' else sys.executable
        self.process = subprocess.Popen(
            [interpreter, os.path.abspath(__file__), '--threads', str(arguments.threads), '--worker',
             name, work], env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            preexec_fn=lambda: os.sched_setaffinity(0, cores))
        self.works = self.process.stdout.readline() == 'ready\n'

    def times(self, seconds):
        self.process.stdin.write('%g\n' % seconds)
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def be_busy(cores):
    os.sched_setaffinity(0, cores)
    while True:
        sum(range(10000))


def measure(work, arguments, cores):
    """The rows (side, busy, median, p95) of a work."""
    sides = {name: Side(name, work, arguments, cores) for name in arguments.sides.split(',')}
    for name in [name for name, side in sides.items() if not side.works]:
        print('%s does not run %s here' % (name, work), file=sys.stderr)
        sides.pop(name).end()
    rows = []
    for busy in map(int, arguments.busy.split(',')):
        others = [multiprocessing.Process(target=be_busy, args=(cores,), daemon=True)
                  for _ in range(busy)]
        for other in others:
            other.start()
        times = {name: [] for name in sides}
        for _ in range(arguments.rounds):
            for name, side in sides.items():
                times[name] += side.times(arguments.seconds)
        for other in others:
            other.terminate()
            other.join()
        for name, all_times in times.items():
            all_times.sort()
            rows.append((name, busy, statistics.median(all_times),
                         all_times[int(0.95 * (len(all_times) - 1))], all_times[0]))
    for side in sides.values():
        side.end()
    return rows


def report(arguments, cores):
    names = {'cortado': 'Cortado', 'cortado-300000': 'Cortado, OpenMP\'s own waiting',
             'pytorch': 'PyTorch'}
    load = os.getloadavg()[0]
    lines = ['# Nets on a busy machine', '',
             '* Date: %s; commit %s' % (
                 datetime.datetime.now(datetime.timezone.utc).strftime('%Y-%m-%d %H:%M UTC'),
                 commit()),
             '* Host: %s; %d threads on %d cores; load %.1f before the start' % (
                 processor(), arguments.threads, len(cores), load),
             '* Each number is of %d rounds of %g s a side, the sides in turns; milliseconds a pass.' % (
                 arguments.rounds, arguments.seconds),
             '* "OpenMP\'s own waiting" is GOMP_SPINCOUNT=300000, which Cortado keeps.', '']
    for work in arguments.works.split(','):
        rows = measure(work, arguments, cores)
        lines += ['## %s' % work, '',
                  '| side | busy processes | median | 95 % | fastest | median : quiet |',
                  '|---|---:|---:|---:|---:|---:|']
        quiet = {name: median for name, busy, median, _, _ in rows if busy == 0}
        for name, busy, median, slow, fast in rows:
            ratio = '%.2f' % (median / quiet[name]) if name in quiet else ''
            lines.append('| %s | %d | %.2f | %.2f | %.2f | %s |' % (
                names.get(name, name), busy, median, slow, fast, ratio))
        lines.append('')
    write_report('\n'.join(lines).rstrip('\n') + '\n', arguments.output)


def main():
    arguments = parse_arguments()
    if arguments.worker:
        return worker(arguments)
    allowed = sorted(os.sched_getaffinity(0))
    cores = [int(core) for core in arguments.cores.split(',')] if arguments.cores else (
        allowed[:arguments.threads])
    report(arguments, set(cores))


if __name__ == '__main__':
    main()
