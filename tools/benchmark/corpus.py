#!/usr/bin/env python3
"""Counts which prototxt files of a folder load, build and run.

    tools/benchmark/corpus.py FOLDER [-jobs 2] [-timeout 60] [-memory 8] [-failures FILE]

A file loads in a phase if it parses and all its layer types are known there, builds if a net can be
made of it, and runs if a forward pass has finite tops. Layers that read data are replaced by Inputs
of the sizes in their parameters, or else of SIZES. Each file runs in a process of its own, with at
most `-timeout` seconds for a phase and `-memory` GiB. Deploy nets have no layer that reads data.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import resource
import subprocess
import sys

# The sizes of images without one in the file, of labels and of batches.
SIZES = {'image': 224, 'label': [], 'batch': 2}
# Layers that read data: the shapes of their tops after the images.
SOURCES = {'AnnotatedData': [[1, 1, 8, 8]], 'BoxData': [], 'Data': [], 'HDF5Data': [],
           'ImageData': [], 'MemoryData': [], 'WindowData': []}
PHASES = ['TEST', 'TRAIN']
STEPS = ['load', 'build', 'run']


def size_of(layer):
    """Height and width of the images that a layer reads."""
    transform = layer.transform_param
    if transform.crop_size:
        return transform.crop_size, transform.crop_size
    if len(transform.resize_param) and transform.resize_param[0].height:
        return transform.resize_param[0].height, transform.resize_param[0].width
    if layer.image_data_param.new_height:
        return layer.image_data_param.new_height, layer.image_data_param.new_width
    if layer.memory_data_param.height:
        return layer.memory_data_param.height, layer.memory_data_param.width
    return SIZES['image'], SIZES['image']


def without_sources(net):
    """Replaces layers that read data by Inputs. Returns whether there were any."""
    replaced = False
    for layer in net.layer:
        if layer.type not in SOURCES:
            continue
        replaced = True
        channels = layer.memory_data_param.channels or 3
        shapes = [[SIZES['batch'], channels, *size_of(layer)]]
        for index in range(1, len(layer.top)):
            known = SOURCES[layer.type]
            shapes.append(known[index - 1] if index <= len(known)
                          else [SIZES['batch'], *SIZES['label']])
        layer.type = 'Input'
        for field, _ in layer.ListFields():
            if field.name not in ('name', 'type', 'top', 'include', 'exclude'):
                layer.ClearField(field.name)
        for shape in shapes[:len(layer.top)]:
            layer.input_param.shape.add(dim=shape)
    return replaced


def try_net(path, phase):
    """The last step of STEPS that succeeds, whether it is a deploy net, and the error of the next."""
    import numpy as np
    import caffe
    from caffe.proto import caffe_pb2
    from google.protobuf import text_format

    caffe.set_device('cpu')
    with open(path, encoding='utf-8', errors='replace') as file:
        text = file.read()
    net, deploy = caffe_pb2.NetParameter(), True
    try:
        text_format.Parse(text, net)
        deploy = not without_sources(net)
        target = net
    except text_format.ParseError:
        target = path  # the phase may leave out what is unknown; Net's message says more, too
    try:
        made = caffe.Net(target, getattr(caffe, phase))
    except Exception as error:  # pylint: disable=broad-except
        said = str(error)
        unknown = any(words in said for words in
                      ('Failed to parse', 'unknown name', 'there is no layer type', 'unknown type'))
        return ('' if unknown else 'load'), deploy, said
    try:
        made.forward()
        for name in made.outputs:
            if not np.isfinite(np.asarray(made.blobs[name].data, np.float64)).all():
                return 'build', deploy, 'blob %s is not finite' % name
    except Exception as error:  # pylint: disable=broad-except
        return 'build', deploy, str(error)
    return 'run', deploy, ''


def run(path, phase, arguments):
    limit = int(arguments.memory * 2 ** 30)
    try:
        done = subprocess.run(
            [sys.executable, __file__, arguments.folder, '-one', path, phase], capture_output=True,
            text=True, timeout=arguments.timeout, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    except subprocess.TimeoutExpired:
        return 'build', True, 'more than %d s' % arguments.timeout
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return '', True, 'ended with %d: %s' % (done.returncode, done.stderr[-200:])
    return json.loads(lines[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', 1)[0])
    parser.add_argument('folder')
    parser.add_argument('-jobs', type=int, default=2)
    parser.add_argument('-timeout', type=float, default=60)
    parser.add_argument('-memory', type=float, default=8)
    parser.add_argument('-failures', help='a file for the errors')
    parser.add_argument('-one', nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(try_net(*arguments.one)))
        return
    paths = sorted(os.path.join(root, name) for root, _, names in os.walk(arguments.folder)
                   for name in names)
    counts, failures = collections.Counter(), []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        futures = {(path, phase): pool.submit(run, path, phase, arguments)
                   for path in paths for phase in PHASES}
    for path in paths:
        results = [futures[path, phase].result() for phase in PHASES]
        deploy = all(result[1] for result in results)
        best = max(STEPS.index(step) + 1 if step else 0 for step, _, _ in results)
        for kind in ['all'] + ['deploy'] * deploy:
            counts[kind, 'files'] += 1
            for step in STEPS[:best]:
                counts[kind, step] += 1
        if best < len(STEPS):
            failures.append('%s\t%s' % (os.path.relpath(path, arguments.folder),
                                        results[0][2].replace('\n', ' ')[:300]))
    print('%-8s %6s %6s %6s %6s' % ('nets', 'files', *STEPS))
    for kind in ('all', 'deploy'):
        print('%-8s %6d %6d %6d %6d' % (kind, counts[kind, 'files'],
                                        *(counts[kind, step] for step in STEPS)))
    if arguments.failures:
        with open(arguments.failures, 'w', encoding='utf-8') as file:
            file.write('\n'.join(failures) + '\n')


if __name__ == '__main__':
    main()
