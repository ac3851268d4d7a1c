#!/usr/bin/env python3
"""Converts files of nets.py to a file that `caffe benchmark -merge` reads.

The cells are those of the peers (PyTorch, ONNX Runtime, OpenVINO) that nets.py measured in forward
passes or in forward and backward passes; with --all, also those of the trees of Cortado.
"""
import argparse
import json
import statistics
import sys

# The first word of a side's name -> the name of the package in the versions of a run.
PACKAGES = {'torch': 'PyTorch', 'ort': 'ONNX Runtime', 'openvino': 'OpenVINO'}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('files', nargs='+', help='JSON files of nets.py')
    parser.add_argument('--all', action='store_true', help='the trees of Cortado, too')
    parser.add_argument('--output', help='the file to write (default: standard output)')
    return parser.parse_args()


def framework(side, versions):
    """'torch-channels-last' -> 'PyTorch 2.11.0 channels-last'; the name of a tree stays."""
    first, _, mode = side.partition('-')
    if first not in PACKAGES:
        return side
    package = PACKAGES[first]
    version = versions.get(package, '').partition('+')[0]
    return ' '.join(word for word in (package, version, mode) if word)


def cells(run, every=False):
    """The cells of a run of nets.py."""
    found = []
    for case in run['cases']:
        for name, side in case['sides'].items():
            peer = name.split('-')[0] in PACKAGES
            if case['work'] == 'train' or not (peer or every):
                continue
            cell = dict(net=case['model'], name='', framework=framework(name, run['versions']),
                        type=case['type'], device_name=run['device_name'], batch=case['batch'],
                        device=run['device'].replace('opencl', 'cuda') if peer else run['device'],
                        train=case['work'] == 'forward-backward')
            times = side.get('milliseconds')
            if times:
                cell.update(milliseconds=statistics.median(times), fastest=min(times),
                            samples=len(times))
            else:
                cell['error'] = side.get('skipped') or '; '.join(case.get('faults', [])) or (
                    'not measured')
            if 'mib' in side:
                cell['memory'] = round(side['mib'] * 2 ** 20)
            found.append(cell)
    return found


def main():
    arguments = parse_arguments()
    found = []
    for path in arguments.files:
        with open(path) as file:
            found += cells(json.load(file), arguments.all)
    text = json.dumps(dict(cells=found), indent=1) + '\n'
    if arguments.output:
        with open(arguments.output, 'w') as file:
            file.write(text)
    else:
        sys.stdout.write(text)


if __name__ == '__main__':
    main()
