#!/usr/bin/env python3
"""The time from the start of `import` to a net's first result, in a process of its own each time.

Every side is a folder with a built tree; the sides run in turns. Each side has a cache of kernels and
measurements of its own, which the runs before the measured ones fill. The modules are compiled to bytecode
by the same runs.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)

from facts import commit, processor, write_report  # noqa: E402

PARTS = ('numpy', 'caffe', 'device', 'net', 'forward')
WARM_UP = 3  # processes


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--models', nargs='*', default=['caffenet', 'lenet'], metavar='MODEL')
    parser.add_argument('--device', default='cpu', metavar='cpu|GPU', help='the index of a GPU')
    parser.add_argument('--sides', default='cortado=' + ROOT, metavar='NAME=FOLDER,...')
    parser.add_argument('--rounds', type=int, default=7)
    parser.add_argument('--output', metavar='FILE', help='write the report to this file, too')
    parser.add_argument('--worker', help=argparse.SUPPRESS)
    return parser.parse_args()


def work(task):
    """In a process of its own: the seconds of each part."""
    from time import perf_counter as now
    times = [now()]
    import numpy  # noqa: F401
    times.append(now())
    sys.path.insert(0, os.path.join(task['folder'], 'python'))
    import caffe
    times.append(now())
    if task['device'] == 'cpu':
        caffe.set_mode_cpu()
    else:
        caffe.set_device(int(task['device']))
        caffe.set_mode_gpu()
    times.append(now())
    net = caffe.Net(task['model'], caffe.TEST, weights=task['weights'])
    times.append(now())
    net.forward()
    net.blobs[net.outputs[0]].data.sum()  # waits for the result
    times.append(now())
    if task['save']:
        net.save(task['save'])
    print(json.dumps([b - a for a, b in zip(times, times[1:])]))


def run(task, folder):
    """The seconds of each part in a new process."""
    environment = dict(os.environ, CAFFE_LOG='error', CAFFE_CACHE_DIR=os.path.join(folder, 'cache'),
                       PYTHONPYCACHEPREFIX=os.path.join(folder, 'bytecode'))
    environment.pop('PYTHONDONTWRITEBYTECODE', None)
    answer = subprocess.run([sys.executable, os.path.abspath(__file__), '--worker', json.dumps(task)],
                            env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(answer.stdout.splitlines()[-1])


def measure(arguments, sides, model, folder):
    """Lines of the table for one model, first with weights of the fillers, then with those of a file."""
    path = os.path.join(ROOT, 'models', model)
    path = os.path.join(path, 'deploy.prototxt' if os.path.exists(
        os.path.join(path, 'deploy.prototxt')) else model + '.prototxt')
    weights = os.path.join(folder, model + '.caffemodel')
    lines = []
    for source in ('fillers', 'a file'):
        times = {name: [] for name in sides}
        for round_ in range(-WARM_UP, arguments.rounds):
            for name, tree in sides.items():
                task = dict(folder=tree, device=arguments.device, model=path,
                            weights=weights if source == 'a file' else None,
                            save=weights if source == 'fillers' and round_ == -WARM_UP else None)
                parts = run(task, os.path.join(folder, name))
                if round_ >= 0:
                    times[name].append([sum(parts)] + parts)
        for name, rows in times.items():
            medians = [statistics.median(column) for column in zip(*rows)]
            lines.append('| %s | %s | %s | %s |' % (
                model, source, name, ' | '.join('%.3f' % median for median in medians)))
            print(lines[-1], file=sys.stderr)
    return lines


def main():
    arguments = parse_arguments()
    if arguments.worker:
        return work(json.loads(arguments.worker))
    sides = {}
    for side in arguments.sides.split(','):
        name, tree = side.split('=', 1)
        sides[name] = os.path.abspath(tree)
    with tempfile.TemporaryDirectory() as folder:
        lines = [line for model in arguments.models
                 for line in measure(arguments, sides, model, folder)]
    write_report('\n'.join([
        '%s, %s, %d processors, device %s, %s' % (
            datetime.date.today(), processor(), os.cpu_count(), arguments.device,
            ', '.join('%s at %s' % (name, commit(tree)) for name, tree in sides.items())),
        '', 'Seconds to the first result, and its parts: medians of %d processes.' % arguments.rounds,
        '', '| net | weights of | side | all | %s |' % ' | '.join(PARTS),
        '|---|---|---|' + '---:|' * (len(PARTS) + 1)] + lines) + '\n', arguments.output)


if __name__ == '__main__':
    main()
