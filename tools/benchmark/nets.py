#!/usr/bin/env python3
"""Times passes of the nets in models/: this tree beside other built trees, in turns.

Every side is a process of its own, on the same cores. For each net, type and batch all sides start
and warm up; then they take turns, one round each, while the others sleep. Weights and images are
random and the same on all sides; the images are on the device before the clock starts, the results
are copied to the host.
"""
import argparse
import datetime
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

from facts import ROOT, commit, processor, write_report

MODELS = ('alexnet', 'caffenet', 'googlenet', 'mobilenet_v1', 'resnet50', 'squeezenet', 'vgg16')
TYPES = {'float': 'CAFFE_FLOAT', 'half': 'CAFFE_HALF', 'bfloat16': 'CAFFE_BFLOAT16'}


def names(choices):
    def parse(text):
        chosen = text.split(',')
        for name in chosen:
            if name not in choices:
                raise argparse.ArgumentTypeError('%s is not one of %s' % (name, ', '.join(choices)))
        return chosen
    return parse


def numbers(text):
    return [int(number) for number in text.split(',')]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--device', default='cpu', help='cpu, cuda:0, opencl:0, …')
    parser.add_argument('--models', type=names(MODELS), default=list(MODELS),
                        help='comma-separated (default: all)')
    parser.add_argument('--types', type=names(TYPES), default=['float'],
                        help='comma-separated, of %s (default: float)' % ', '.join(TYPES))
    parser.add_argument('--batches', type=numbers, default=[1], help='comma-separated (default: 1)')
    parser.add_argument('--pass', dest='work', choices=('forward', 'forward-backward'),
                        default='forward', help='forward: phase TEST; forward-backward: phase TRAIN')
    parser.add_argument('--sides', default='cortado=' + ROOT,
                        help='comma-separated NAME=FOLDER of built trees; the first is compared '
                        'with each of the others (default: this tree)')
    parser.add_argument('--rounds', type=int, default=7)
    parser.add_argument('--seconds', type=float, default=1, help='of one round, about (default: 1)')
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--output', help='a Markdown file to write')
    parser.add_argument('--worker', help=argparse.SUPPRESS)
    return parser.parse_args()


def prototxt(model, type_name, batch):
    """The net of a model for one batch size and type."""
    with open(os.path.join(ROOT, 'models', model, 'deploy.prototxt')) as file:
        text = re.sub(r'dim: \d+', 'dim: %d' % batch, file.read(), count=1)
    return 'data_type: %s\n%s' % (TYPES[type_name], text)


# --- One process per side -------------------------------------------------------------------------

def work(arguments):
    """Answers each line of input, a number of passes, by a line of JSON."""
    answers = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)  # output of libraries must not mix with the answers
    sys.path.insert(0, os.path.join(arguments.worker, 'python'))
    os.environ.setdefault('CAFFE_LOG', 'warning')
    import caffe
    import numpy as np
    caffe.set_device(arguments.device)
    train = arguments.work == 'forward-backward'
    with tempfile.NamedTemporaryFile('w', suffix='.prototxt') as file:
        file.write(prototxt(arguments.models[0], arguments.types[0], arguments.batches[0]))
        file.write('force_backward: true\n' if train else '')
        file.flush()
        net = caffe.Net(file.name, caffe.TRAIN if train else caffe.TEST)
    random = np.random.RandomState(1)
    kinds = dict(zip(net._layer_names, (layer.type for layer in net.layers)))
    for name, blobs in net.params.items():
        for i, blob in enumerate(blobs):
            if kinds[name] == 'BatchNorm':
                values = (0.0, 1.0, 1.0)[i] * np.ones(blob.shape)
            else:
                fan_in = max(1, blob.count // blob.shape[0])
                values = random.standard_normal(blob.shape) * math.sqrt(2 / fan_in) * (i == 0)
                if kinds[name] == 'Scale':
                    values = np.full(blob.shape, 1.0 - i)
            blob.data[...] = values
    net.blobs['data'].data[...] = random.uniform(-1, 1, tuple(net.blobs['data'].shape))
    output = net.blobs[net.outputs[0]]
    if train:
        output.diff[...] = 1e-3
    device = caffe.device()

    def step(passes):
        for _ in range(passes):
            net.forward()
            if train:
                net.backward()
        device.synchronize()

    step(1)
    device.reset_peak()
    step(2)
    print(json.dumps(dict(device=device.description, mib=device.bytes_peak / 2 ** 20)),
          file=answers, flush=True)
    for line in sys.stdin:
        begin = time.perf_counter()
        step(int(line))
        print(json.dumps(time.perf_counter() - begin), file=answers, flush=True)


class Side:
    def __init__(self, name, folder, case, arguments):
        self.name = name
        model, type_name, batch = case
        command = [sys.executable, os.path.abspath(__file__), '--worker', folder, '--models', model,
                   '--types', type_name, '--batches', str(batch), '--pass', arguments.work,
                   '--device', arguments.device]
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

    def run(self, passes):
        """Milliseconds of a pass."""
        print(passes, file=self.process.stdin, flush=True)
        return 1e3 * self.answer() / passes

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(case, arguments):
    sides = [Side(*side.split('=', 1), case, arguments) for side in arguments.sides.split(',')]
    passes = [max(1, round(1e3 * arguments.seconds / side.run(2))) for side in sides]
    for _ in range(arguments.rounds):
        for side, count in zip(sides, passes):
            side.run(1)  # starts its threads
            side.milliseconds.append(side.run(count))
    for side in sides:
        side.close()
    return sides


# --- The report -----------------------------------------------------------------------------------

def row(case, sides):
    cells = ['%s' % case[0], case[1], '%d' % case[2]]
    for side in sides:
        cells += ['%.3g' % statistics.median(side.milliseconds), '%.1f' % side.facts['mib']]
    for other in sides[1:]:
        ratios = [a / b for a, b in zip(sides[0].milliseconds, other.milliseconds)]
        cells.append('%.2f (%.2f to %.2f)' % (statistics.median(ratios), min(ratios), max(ratios)))
    return '| ' + ' | '.join(cells) + ' |'


def report(arguments, cores, table):
    now = datetime.datetime.now(datetime.timezone.utc)
    sides = next(iter(table.values()))
    device = processor() if arguments.device == 'cpu' else sides[0].facts['device']
    first = sides[0].name
    lines = [
        '# %s passes: %s' % (arguments.work.capitalize(), arguments.device), '',
        '* Date: %s UTC; commit %s' % (now.strftime('%Y-%m-%d %H:%M'), commit()),
        '* Device: %s' % device,
        '* Host: %s, %d threads on cores %s' % (processor(), arguments.threads,
                                                ','.join(map(str, cores))),
        '* Medians over %d rounds of about %g s, the sides in turns; the ratio is the median of the '
        "rounds' ratios (smallest to largest); MiB is the peak of the allocator" % (
            arguments.rounds, arguments.seconds), '']
    head = ['net', 'type', 'batch']
    for side in sides:
        head += ['%s ms' % side.name, '%s MiB' % side.name]
    head += ['%s / %s' % (first, other.name) for other in sides[1:]]
    lines += ['| ' + ' | '.join(head) + ' |', '|---|---|' + '---:|' * (len(head) - 2)]
    lines += [row(case, sides) for case, sides in table.items()]
    for i, other in enumerate(sides[1:], 1):
        for type_name in arguments.types:
            ratios = [statistics.median(a / b for a, b in zip(sides[0].milliseconds,
                                                              sides[i].milliseconds))
                      for case, sides in table.items() if case[1] == type_name]
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            lines += ['', 'Geometric mean of %s / %s, %s: **%.2f**.' % (first, other.name, type_name,
                                                                      mean)]
    return '\n'.join(lines) + '\n'


def main():
    arguments = parse_arguments()
    if arguments.worker:
        work(arguments)
        return
    cores = sorted(os.sched_getaffinity(0))
    if arguments.device == 'cpu':
        if len(cores) < arguments.threads:
            sys.exit('%d threads need as many cores, there are %d' % (arguments.threads, len(cores)))
        cores = cores[:arguments.threads]
        os.sched_setaffinity(0, cores)
    table = {}
    for model in arguments.models:
        for type_name in arguments.types:
            for batch in arguments.batches:
                case = (model, type_name, batch)
                table[case] = measure(case, arguments)
                print(row(case, table[case]), file=sys.stderr)
    write_report(report(arguments, cores, table), arguments.output)


if __name__ == '__main__':
    main()
