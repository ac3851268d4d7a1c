#!/usr/bin/env python3
"""How many records and images the data layers read in a second of processor time.

Every side is a folder with a built tree; the sides run in turns, each time in a new process. All
read the same files, which the tools of this tree make of random shapes. Processor time, not that of
the clock: other programs of the machine disturb it less.
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

BATCH = 64
CASES = {  # the layer's type, and the source of make_data
    'LMDB of 1 x 28 x 28 pixels': ('Data', 'small'),
    'LMDB of 3 x 64 x 64 pixels': ('Data', 'pixels'),
    'LMDB of JPEG files': ('Data', 'encoded'),
    'JPEG files': ('ImageData', 'jpg.txt'),
    'PNG files': ('ImageData', 'png.txt'),
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--sides', default='cortado=' + ROOT, metavar='NAME=FOLDER,...')
    parser.add_argument('--rounds', type=int, default=15)
    parser.add_argument('--seconds', type=float, default=1.0, help='of each measurement')
    parser.add_argument('--output', metavar='FILE', help='write the report to this file, too')
    parser.add_argument('--worker', help=argparse.SUPPRESS)
    return parser.parse_args()


def make_data(folder):
    """Databases and image files, whose pixels are smooth, as those of photographs are."""
    import numpy as np
    from PIL import Image
    random = np.random.default_rng(1)
    lists = {'jpg': [], 'png': []}
    for index in range(256):
        small = Image.fromarray(random.integers(0, 256, (8, 8, 3), dtype='u1'))
        for kind, names in lists.items():
            name = '%d.%s' % (index, kind)
            small.resize((64, 64), Image.BICUBIC).save(os.path.join(folder, name))
            names.append('%s %d\n' % (name, index % 10))
    for kind, names in lists.items():
        with open(os.path.join(folder, kind + '.txt'), 'w') as file:
            file.writelines(names)
    with open(os.path.join(folder, 'small.txt'), 'w') as file:
        file.writelines(lists['jpg'] * 64)
    tool = [os.path.join(ROOT, 'build/tools/convert_imageset')]
    digits = ['-gray', '-resize_height=28', '-resize_width=28']
    for name, source, flags in (('small', 'small', digits), ('pixels', 'jpg', []),
                                ('encoded', 'jpg', ['-encoded'])):
        subprocess.run(tool + flags + [folder + '/', os.path.join(folder, source + '.txt'),
                                       os.path.join(folder, name)], check=True)


def work(task):
    """In a process of its own: images in a second of all its threads."""
    from time import perf_counter, process_time
    sys.path.insert(0, os.path.join(task['folder'], 'python'))
    import caffe
    layer = {'name': 'data', 'type': task['type'], 'top': ['data', 'label']}
    if task['type'] == 'Data':
        layer['data_param'] = {'source': task['source'], 'backend': 'LMDB', 'batch_size': BATCH}
    else:
        layer['image_data_param'] = {'source': task['source'], 'batch_size': BATCH,
                                     'root_folder': os.path.dirname(task['source']) + '/'}
    net = caffe.Net(caffe.proto.caffe_pb2.NetParameter(layer=[layer]), caffe.TEST)
    for _ in range(8):  # the batches that were read before the clock starts, and warm caches
        net.forward()
    begin, used, batches = perf_counter(), process_time(), 0
    while perf_counter() - begin < task['seconds']:
        net.forward()
        batches += 1
    print(json.dumps(batches * BATCH / (process_time() - used)))


def run(task):
    environment = dict(os.environ, CAFFE_LOG='error', OMP_NUM_THREADS='1',
                       LD_LIBRARY_PATH=os.path.join(task['folder'], 'build'))
    command = [sys.executable, os.path.abspath(__file__), '--worker', json.dumps(task)]
    answer = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(answer.stdout.splitlines()[-1])


def measure(arguments, sides, folder):
    """The lines of the table."""
    lines = []
    for case, (kind, source) in CASES.items():
        speeds = {name: [] for name in sides}
        for round_ in range(arguments.rounds):
            order = list(sides.items())
            for name, tree in order if round_ % 2 == 0 else reversed(order):
                speeds[name].append(run(dict(folder=tree, type=kind, seconds=arguments.seconds,
                                             source=os.path.join(folder, source))))
        first = speeds[next(iter(sides))]
        for name, values in speeds.items():
            ratio = statistics.median(value / other for value, other in zip(values, first))
            lines.append('| %s | %s | %.0f | %.3f |' % (
                case, name, statistics.median(values), ratio))
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
        make_data(folder)
        lines = measure(arguments, sides, folder)
    write_report('\n'.join([
        '%s, %s, %d processors, one thread, %s' % (
            datetime.date.today(), processor(), os.cpu_count(),
            ', '.join('%s at %s' % (name, commit(tree)) for name, tree in sides.items())),
        '', 'Records or images in a second of processor time, batches of %d: medians of %d '
        'processes, the sides in turns, and the median of their ratios to the first side.' % (
            BATCH, arguments.rounds),
        '', '| source | side | in a second | ratio |', '|---|---|---:|---:|'] + lines) + '\n',
        arguments.output)


if __name__ == '__main__':
    main()
