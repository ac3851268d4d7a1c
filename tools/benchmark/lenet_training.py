#!/usr/bin/env python3
"""Times training iterations of LeNet here and in PyTorch: same net, batch, solver, cores; alternately.

Every side is a process of its own (two OpenMP runtimes in one process disturb each other). First
all are started and warmed up; then they take turns, one round each, while the others sleep. An
iteration is forward, backward and update of one batch that stays on the device.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from facts import commit, processor, write_report

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
RATE, MOMENTUM, DECAY = 0.01, 0.9, 0.0005
OURS = 'cortado'
PEERS = ('pytorch', 'pytorch-channels_last', 'pytorch-compile')


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--device', default='cpu', help='ours: cpu, cuda:0, opencl:0, …')
    parser.add_argument('--peer-device', help='PyTorch\'s (default: the same; cuda:N for opencl:N)')
    parser.add_argument('--type', choices=('float', 'half'), default='float',
                        help='half: float masters and loss scaling on both sides')
    parser.add_argument('--sides', default=OURS + ',pytorch',
                        help='comma-separated, of %s (default: %%(default)s)'
                        % ', '.join((OURS,) + PEERS))
    parser.add_argument('--batch', type=int, default=64)
    parser.add_argument('--rounds', type=int, default=7)
    parser.add_argument('--iterations', type=int, default=100, help='of one round')
    parser.add_argument('--warmup', type=int, default=30, help='iterations before the first round')
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--cores', help='comma-separated (default: the first allowed ones, as many '
                        'as threads; for GPUs all)')
    parser.add_argument('--peer-python', default=sys.executable, help='an interpreter with PyTorch')
    parser.add_argument('--output', help='a Markdown file to write')
    parser.add_argument('--worker', choices=(OURS,) + PEERS, help=argparse.SUPPRESS)
    return parser.parse_args()


def fixed_batch(size):
    import numpy as np
    images = np.random.RandomState(1).uniform(0, 1, (size, 1, 28, 28)).astype(np.float32)
    return images, np.arange(size) % 10


# --- The sides: each gives (facts, step), where step(n) trains and returns the last loss. ---------

def make_ours(arguments):
    sys.path[:0] = [os.path.join(ROOT, 'python'), os.path.join(ROOT, 'models', 'lenet')]
    os.environ.setdefault('CAFFE_LOG', 'warning')
    import caffe
    from caffe import layers as L
    from caffe.proto import caffe_pb2
    import generate
    caffe.set_device(arguments.device)
    caffe.set_random_seed(1)
    data_type = caffe_pb2.CAFFE_HALF if arguments.type == 'half' else None
    net = caffe.NetSpec()
    net.data, net.label = L.Input(
        shape=[dict(dim=[arguments.batch, 1, 28, 28]), dict(dim=[arguments.batch])], ntop=2)
    generate.add_body(net, generate.data_types(data_type))
    net.loss = L.SoftmaxWithLoss(net.ip2, net.label)
    settings = caffe_pb2.SolverParameter(base_lr=RATE, momentum=MOMENTUM, weight_decay=DECAY,
                                         lr_policy='fixed', max_iter=1 << 30, random_seed=1)
    settings.net_param.CopyFrom(net.to_proto())
    with tempfile.NamedTemporaryFile('w', suffix='.prototxt') as file:
        file.write(str(settings))
        file.flush()
        solver = caffe.SGDSolver(file.name)
    images, labels = fixed_batch(arguments.batch)
    solver.net.blobs['data'].data[...] = images
    solver.net.blobs['label'].data[...] = labels
    device = caffe.device()

    def step(iterations):
        loss = solver.step(iterations)
        device.synchronize()
        return loss

    return dict(version='Cortado ' + caffe.__version__, device=device.name), step


def make_pytorch(arguments):
    import torch
    from torch import nn
    if arguments.peer_device is None:
        arguments.peer_device = arguments.device.replace('opencl', 'cuda')
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    device = torch.device(arguments.peer_device)
    net = nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(800, 500), nn.ReLU(inplace=True), nn.Linear(500, 10)).to(device)
    images, labels = (torch.from_numpy(array).to(device) for array in fixed_batch(arguments.batch))
    if arguments.worker.endswith('channels_last'):
        net = net.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    # As in models/lenet, biases learn at twice the rate.
    optimizer = torch.optim.SGD(
        [dict(params=[p for p in net.parameters() if p.dim() > 1], lr=RATE),
         dict(params=[p for p in net.parameters() if p.dim() == 1], lr=2 * RATE)],
        momentum=MOMENTUM, weight_decay=DECAY)
    criterion = nn.CrossEntropyLoss()
    if arguments.worker.endswith('compile'):
        net = torch.compile(net)
    half = arguments.type == 'half'
    scaler = torch.amp.GradScaler(device.type, enabled=half)

    def step(iterations):
        for _ in range(iterations):
            optimizer.zero_grad()
            with torch.autocast(device.type, torch.float16, enabled=half):
                loss = criterion(net(images), labels)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        return loss.item()  # waits for the device

    name = torch.cuda.get_device_name(device) if device.type == 'cuda' else processor()
    return dict(version='PyTorch ' + torch.__version__, device=name), step


# --- One process per side -------------------------------------------------------------------------

def work(arguments):
    """Answers each line of input, a number of iterations, by a line of JSON."""
    answers = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)  # output of libraries must not mix with the answers
    make = make_ours if arguments.worker == OURS else make_pytorch
    facts, step = make(arguments)
    print(json.dumps(facts), file=answers, flush=True)
    for line in sys.stdin:
        begin = time.perf_counter()
        loss = step(int(line))
        print(json.dumps(dict(seconds=time.perf_counter() - begin, loss=float(loss))), file=answers,
              flush=True)


class Side:
    def __init__(self, name, arguments):
        self.name = name
        python = sys.executable if name == OURS else arguments.peer_python
        command = [python, os.path.abspath(__file__), '--worker', name,
                   '--device', arguments.device, '--type', arguments.type,
                   '--batch', str(arguments.batch), '--threads', str(arguments.threads)]
        if arguments.peer_device:
            command += ['--peer-device', arguments.peer_device]
        environment = dict(os.environ, OMP_NUM_THREADS=str(arguments.threads))
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.facts = self.answer()
        self.milliseconds = []

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit('%s ended early, with status %d' % (self.name, self.process.wait()))
        return json.loads(line)

    def train(self, iterations):
        """Milliseconds of an iteration."""
        print(iterations, file=self.process.stdin, flush=True)
        answer = self.answer()
        self.loss = answer['loss']
        return 1e3 * answer['seconds'] / iterations

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# --- The report -----------------------------------------------------------------------------------

def report(arguments, cores, sides):
    now = datetime.datetime.now(datetime.timezone.utc)
    device = sides[0].facts['device'] if arguments.device != 'cpu' else processor()
    lines = [
        '# Training LeNet: %s, %s' % (arguments.device, arguments.type), '',
        '* Date: %s UTC; commit %s' % (now.strftime('%Y-%m-%d %H:%M'), commit()),
        '* Device: %s' % device,
        '* Host: %s, %d threads on cores %s' % (processor(), arguments.threads,
                                                ','.join(map(str, cores))),
        '* Batch of %d, SGD with momentum %g and weight decay %g; medians over %d rounds of %d '
        'iterations, the sides in turns' % (arguments.batch, MOMENTUM, DECAY, arguments.rounds,
                                            arguments.iterations),
        '', '| side | version | ms per iteration | fastest | slowest | images/s | loss at the end |',
        '|---|---|---:|---:|---:|---:|---:|']
    for side in sides:
        times = side.milliseconds
        median = statistics.median(times)
        lines.append('| %s | %s | %.3f | %.3f | %.3f | %.0f | %.3g |' % (
            side.name, side.facts['version'], median, min(times), max(times),
            1e3 * arguments.batch / median, side.loss))
    lines.append('')
    for peer in sides[1:]:
        ratios = [a / b for a, b in zip(sides[0].milliseconds, peer.milliseconds)]
        lines.append('Time of %s / time of %s: **%.3f** (median of the rounds; %.3f to %.3f).' % (
            sides[0].name, peer.name, statistics.median(ratios), min(ratios), max(ratios)))
    return '\n'.join(lines).rstrip() + '\n'


def main():
    arguments = parse_arguments()
    if arguments.worker:
        work(arguments)
        return
    names = arguments.sides.split(',')
    for name in names:
        if name != OURS and name not in PEERS:
            sys.exit('unknown side %s' % name)
    cores = sorted(os.sched_getaffinity(0))
    if arguments.cores:
        cores = sorted(int(core) for core in arguments.cores.split(','))
    elif arguments.device == 'cpu':
        cores = cores[:arguments.threads]
    if arguments.device == 'cpu' and len(cores) < arguments.threads:
        sys.exit('%d threads need as many cores, there are %d' % (arguments.threads, len(cores)))
    os.sched_setaffinity(0, cores)
    sides = [Side(name, arguments) for name in names]
    for side in sides:
        side.train(arguments.warmup)
    for _ in range(arguments.rounds):
        for side in sides:
            side.train(1)  # starts its threads
            side.milliseconds.append(side.train(arguments.iterations))
    for side in sides:
        side.close()
    write_report(report(arguments, cores, sides), arguments.output)


if __name__ == '__main__':
    main()
