#!/usr/bin/env python3
"""Times of training iterations with several numbers of ranks, in turns.

    scaling.py --solver SOLVER --devices 0,1,2,3 [--ranks 1,2,4] [--mpi] [--iterations 100]

Each run is a `caffe train` of the first devices (--mpi: of so many processes). The first quarter of
its iterations is left out. The runs of all numbers of ranks follow each other, and this is repeated.
Prints a row for each number: the median time of an iteration and its spread over the repetitions,
items in a second, and the efficiency, which is the time of one rank divided by that of n.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_SET = ('max_iter', 'display', 'snapshot', 'snapshot_after_train', 'test_interval', 'test_iter',
        'test_initialization')


def settings(text, iterations, display):
    """The solver with this number of iterations, without tests and snapshots."""
    kept = [re.sub(r'\b(%s)\s*:\s*\S+' % '|'.join(_SET), '', text)]
    kept += ['max_iter: %d' % iterations, 'display: %d' % display, 'snapshot: 0',
             'snapshot_after_train: false', 'test_interval: 0']
    return '\n'.join(kept) + '\n'


def command(tool, solver, devices, ranks, mpi):
    """The command of a run."""
    if mpi:
        launcher = ['mpirun', '--oversubscribe', '-n', str(ranks)]
        if os.getuid() == 0:
            launcher.insert(1, '--allow-run-as-root')
        return launcher + [tool, 'train', '-solver', solver, '-gpu', ','.join(devices)]
    return [tool, 'train', '-solver', solver, '-gpu', ','.join(devices[:ranks])]


def times(log, begin):
    """Seconds of an iteration, of each display after iteration `begin`; and items of an update."""
    found = [float(seconds) / int(count) for iteration, seconds, count in re.findall(
        r'Iteration (\d+) \(\S+ iter/s, (\S+?)s/(\d+) iters\)', log) if int(iteration) > begin]
    items = re.search(r'an update is by (\d+) items', log)
    return found, int(items.group(1)) if items else None


def measure(arguments, solver, ranks, begin):
    """Seconds of an iteration and items of an update, of one run."""
    run = command(arguments.tool, solver, arguments.devices.split(','), ranks, arguments.mpi)
    done = subprocess.run(run, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit('scaling.py: %s failed:\n%s' % (' '.join(run), done.stdout[-2000:]))
    found, items = times(done.stdout, begin)
    if not found:
        sys.exit('scaling.py: no time of an iteration in the log:\n' + done.stdout[-2000:])
    return statistics.median(found), items


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--solver', required=True)
    parser.add_argument('--devices', required=True, help='as for caffe train -gpu')
    parser.add_argument('--ranks', help='default: from 1 to all devices, doubled')
    parser.add_argument('--mpi', action='store_true', help='processes instead of threads')
    parser.add_argument('--iterations', type=int, default=100)
    parser.add_argument('--repetitions', type=int, default=3)
    parser.add_argument('--tool', default=os.path.join(ROOT, 'build', 'tools', 'caffe'))
    arguments = parser.parse_args()
    most = len(arguments.devices.split(','))
    counts = [int(count) for count in arguments.ranks.split(',')] if arguments.ranks else [
        1 << power for power in range(most.bit_length()) if 1 << power <= most]
    display = max(1, arguments.iterations // 10)
    with open(arguments.solver, encoding='utf-8') as file:
        text = settings(file.read(), arguments.iterations + 1, display)
    folder = os.path.dirname(os.path.abspath(arguments.solver))
    measured = {count: [] for count in counts}
    items = {}
    with tempfile.NamedTemporaryFile('w', suffix='.prototxt', dir=folder) as solver:
        solver.write(text)
        solver.flush()
        for _ in range(arguments.repetitions):
            for count in counts:
                seconds, items[count] = measure(arguments, solver.name, count,
                                                arguments.iterations // 4)
                measured[count].append(seconds)
    first = statistics.median(measured[counts[0]])
    print('| ranks | ms an iteration (spread) | items a second | efficiency |')
    print('|---|---|---|---|')
    for count in counts:
        seconds = sorted(measured[count])
        middle = statistics.median(seconds)
        speed = '%.0f' % (items[count] / middle) if items[count] else '-'
        print('| %d | %.3f (%.3f to %.3f) | %s | %.2f |' % (
            count, 1e3 * middle, 1e3 * seconds[0], 1e3 * seconds[-1], speed, first / middle))


if __name__ == '__main__':
    main()
