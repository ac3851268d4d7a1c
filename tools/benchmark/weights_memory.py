#!/usr/bin/env python3
"""Measures what nets hold after loading weights of their own type: built trees, in turns.

Each net, type and tree is a process of its own on the CPU: it builds the net in phase TEST with one
image, loads a caffemodel whose weights are stored in that type, and runs a forward pass. Resident
memory is that of the process less what it was before the net was built.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

from facts import ROOT, commit, processor, write_report
from nets import MODELS
from peers.ours import fill, images, import_caffe, make_net, prototxt

TYPES = ('float', 'half', 'bfloat16', 'int16', 'int8')
MIB = 2 ** 20


def resident(key):
    with open('/proc/self/status') as file:
        fields = dict(line.split(':', 1) for line in file)
    return int(fields[key].split()[0]) * 1024


def store(path, folder):
    """Writes the weights of a model in every type, with ranges of all blobs."""
    caffe = import_caffe(ROOT)
    caffe.set_device('cpu')
    text = prototxt(path, 'float', 1)
    net = make_net(caffe, text, caffe.TEST)
    fill(net)
    net.quant_mode = 'observe'
    net.blobs[net.inputs[0]].data[...] = images(net.blobs[net.inputs[0]].shape)
    net.forward()
    model, weights = os.path.join(folder, 'net.prototxt'), os.path.join(folder, 'all.caffemodel')
    with open(model, 'w') as file:
        file.write(text)
    net.save(weights)
    del net
    for type_name in TYPES:
        narrow = {'float': 'casts', 'half': 'round', 'bfloat16': 'round'}.get(type_name,
                                                                            'quantize_weights')
        caffe.transform((model, weights), [narrow], out=os.path.join(folder, type_name),
                        type='' if type_name == 'float' else type_name)


def measure(task):
    caffe = import_caffe(task['tree'])
    caffe.set_device('cpu')
    device = caffe.device()
    text = prototxt(task['path'], task['type'], 1)
    make_net(caffe, 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 } } }',
             caffe.TEST).forward()
    before, allocated = resident('VmRSS'), device.bytes_in_use
    net = make_net(caffe, text, caffe.TEST)
    arguments = {'map_weights': True} if task['map'] else {}
    net.copy_from(task['weights'], **arguments)
    loaded = resident('VmHWM') - before
    net.forward()
    predicted = net.memory
    return dict(file=os.path.getsize(task['weights']), loading=loaded,
                resident=resident('VmRSS') - before, peak=resident('VmHWM') - before,
                allocated=device.bytes_in_use - allocated, predicted=predicted['total'],
                weights=predicted['weights'] + predicted['derived_weights'])


def run(task):
    done = subprocess.run([sys.executable, __file__, '--worker', json.dumps(task)],
                          stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout) if done.stdout else None


def rows(model, trees, types, folder):
    path = os.path.join(ROOT, MODELS[model])
    run(dict(work='store', path=path, folder=folder))
    for type_name in types:
        weights = os.path.join(folder, type_name + '.caffemodel')
        for name, tree in trees:
            for mapped in (False, True) if name == trees[-1][0] else (False,):
                facts = run(dict(work='measure', tree=tree, path=path, type=type_name,
                                 weights=weights, map=mapped))
                yield '| %s | %s | %s | %s |' % (
                    model, type_name, name + (', mapped' if mapped else ''),
                    ' | '.join('%.1f' % (facts[key] / MIB) for key in (
                        'file', 'loading', 'peak', 'resident', 'allocated', 'predicted',
                        'weights')))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--trees', default='now=' + ROOT,
                        help='name=folder of built trees, separated by commas; the last one maps')
    parser.add_argument('--nets', default='caffenet,alexnet,squeezenet')
    parser.add_argument('--types', default=','.join(TYPES))
    parser.add_argument('--output', help='write the report here, too')
    parser.add_argument('--worker', help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        task = json.loads(options.worker)
        if task['work'] == 'store':
            store(task['path'], task['folder'])
        else:
            print(json.dumps(measure(task)))
        return
    trees = [tuple(tree.split('=', 1)) for tree in options.trees.split(',')]
    lines = ['# Memory of weights in the type of their file', '',
             'MiB, one image on %s.' % processor(), '',
             'Trees: ' + ', '.join('%s is %s' % (name, commit(tree)) for name, tree in trees) + '.',
             '', '| net | type | tree | file | peak of loading | peak | resident | allocator | '
             'predicted | weights |', '|---|---|---|---|---|---|---|---|---|---|']
    for model in options.nets.split(','):
        with tempfile.TemporaryDirectory() as folder:
            for line in rows(model, trees, options.types.split(','), folder):
                lines.append(line)
                print(line, file=sys.stderr)
    write_report('\n'.join(lines) + '\n', options.output)


if __name__ == '__main__':
    main()
