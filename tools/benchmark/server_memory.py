#!/usr/bin/env python3
"""Measures the memory of a server: forwards of images of many sizes, on one or several built trees.

Each net and tree is a process of its own. `above` is resident memory less that before the first
forward, `need` the largest net.memory so far.
"""
import argparse
import gc
import json
import random
import subprocess
import sys

import numpy as np

from facts import ROOT, commit, processor, write_report
from peers.ours import import_caffe

CONVOLUTION = ('layer { name: "%s" type: "Convolution" bottom: "%s" top: "%s" convolution_param { '
               'num_output: %d kernel_size: %d pad: %d weight_filler { type: "xavier" } } } ')
INPUT = 'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: [1, 3, 64, 64] } } } '
PRELU = 'layer { name: "%s" type: "PReLU" bottom: "%s" top: "%s" } '


def convolution(name, bottom, outputs, kernel, pad=0):
    return CONVOLUTION % (name, bottom, name, outputs, kernel, pad)


# Two convolutions of large images, and a small detector of faces at many scales.
NETS = {
    'two convolutions': (200, 1000, INPUT + convolution('a', 'data', 8, 3, 1) +
                         convolution('b', 'a', 8, 3, 1)),
    'small detector': (20, 300, INPUT + convolution('a', 'data', 10, 3) + PRELU % ('ra', 'a', 'a') +
                       'layer { name: "pool" type: "Pooling" bottom: "a" top: "pool" '
                       'pooling_param { kernel_size: 2 stride: 2 } } ' +
                       convolution('b', 'pool', 16, 3) + PRELU % ('rb', 'b', 'b') +
                       convolution('c', 'b', 32, 3) + PRELU % ('rc', 'c', 'c') +
                       convolution('score', 'c', 2, 1) + convolution('box', 'c', 4, 1) +
                       'layer { name: "prob" type: "Softmax" bottom: "score" top: "prob" } ')}
MARKS = (1, 10, 100, 400, 1000, 2000)
MIB = 2 ** 20


def resident():
    with open('/proc/self/status') as file:
        fields = dict(line.split(':', 1) for line in file)
    return int(fields['VmRSS'].split()[0]) * 1024


def measure(task):
    caffe = import_caffe(task['tree'])
    caffe.set_device(task['device'])
    from caffe.proto import caffe_pb2
    from google.protobuf import text_format
    low, high, text = NETS[task['net']]
    net = caffe.Net(text_format.Parse(text, caffe_pb2.NetParameter()), caffe.TEST)
    net.forward()
    numbers = random.Random(1)
    start, need, rows = resident(), 0, []
    for i in range(1, task['forwards'] + 1):
        height, width = numbers.randint(low, high), numbers.randint(low, high)
        image = np.full((1, 3, height, width), i % 7, np.float32)
        net.blobs['data'].reshape(*image.shape)
        net.reshape()
        need = max(need, net.memory['total'])
        net.blobs['data'].data[...] = image
        net.forward()
        if i in MARKS or i == task['forwards']:
            rows.append((i, resident() - start, need))
    left = []
    release = getattr(caffe, 'release_memory', lambda: 0)
    release()
    left.append(resident() - start)
    del net
    gc.collect()
    release()
    left.append(resident() - start)
    return dict(rows=rows, left=left)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--trees', default='now=' + ROOT,
                        help='name=folder of built trees, separated by commas')
    parser.add_argument('--device', default='cpu')
    parser.add_argument('--forwards', type=int, default=2000)
    parser.add_argument('--output', help='write the report here, too')
    parser.add_argument('--worker', help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(measure(json.loads(options.worker))))
        return
    trees = [tuple(tree.split('=', 1)) for tree in options.trees.split(',')]
    lines = ['# Memory of a server', '',
             'MiB of resident memory above that before the first image, on %s (%s).' % (
                 options.device, processor()), '',
             'Trees: ' + ', '.join('%s is %s' % (name, commit(tree)) for name, tree in trees) + '.',
             '', '| net | tree | forwards | above | need |', '|---|---|---|---|---|']
    for net in NETS:
        for name, tree in trees:
            task = dict(net=net, tree=tree, device=options.device, forwards=options.forwards)
            done = subprocess.run([sys.executable, __file__, '--worker', json.dumps(task)],
                                  stdout=subprocess.PIPE, text=True, check=True)
            facts = json.loads(done.stdout)
            for forwards, above, need in facts['rows']:
                lines.append('| %s | %s | %d | %.1f | %.1f |' % (net, name, forwards, above / MIB,
                                                                 need / MIB))
            for what, above in zip(('release_memory()', 'without the net'), facts['left']):
                lines.append('| %s | %s | %s | %.1f | |' % (net, name, what, above / MIB))
    write_report('\n'.join(lines) + '\n', options.output)


if __name__ == '__main__':
    main()
