#!/usr/bin/env python3
"""Prints the accuracies of trained nets by type on ILSVRC2012: tables 4.8 and 4.9 of Tschopp's thesis.

--weights MODEL=FILE names a net of models/ and its trained weights, as train.py writes them. Each is
calibrated on training images (calibrate.py), and measured on images of both sets. The databases are
those of create_imagenet.py.
"""
import argparse
import os
import tempfile

from imagenet_net import HERE, MODELS, accuracy, caffe, read_net, train_val, with_data

NAMES = ('accuracy/top1', 'accuracy/top5')


def weights(text):
    model, _, path = text.partition('=')
    if model not in MODELS or not path:
        raise argparse.ArgumentTypeError('%s: expected MODEL=FILE with a model of %s'
                                         % (text, ', '.join(MODELS)))
    return model, path


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--weights', nargs='+', type=weights, required=True, metavar='MODEL=FILE')
    parser.add_argument('--data', default=HERE, metavar='FOLDER')
    parser.add_argument('--device', help='cpu, cuda:0, opencl:1, … (default: the best there is)')
    parser.add_argument('--types', nargs='*', default=['half', 'int16', 'int8'],
                        choices=['half', 'bfloat16', 'int16', 'int8'], metavar='TYPE')
    parser.add_argument('--batch', type=int, default=50, help='images at a time (default: 50)')
    parser.add_argument('--batches', type=int, default=1000,
                        help='of each set (default: as many images as the set for validation has)')
    parser.add_argument('--calibrate', type=int, default=10, metavar='BATCHES')
    return parser.parse_args()


def measured(net, path, arguments):
    """Top-1 and top-5 in percent on training and on validation images."""
    found = []
    for test in ('train', 'val'):
        data = with_data(net(test), arguments.data, test=test)
        outputs = accuracy(caffe.Net(data, caffe.TEST, weights=path), arguments.batches)
        found += [100 * outputs[name] for name in NAMES]
    return found


def rows(model, path, arguments):
    def in_float(test):
        return train_val(model, arguments.data, batch=arguments.batch, test=test)

    yield 'float', measured(in_float, path, arguments)
    for kind in arguments.types:
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, kind)
            caffe.quantize((in_float('train'), path), type=kind, out=out,
                           calibrate=arguments.calibrate, held_out=1)
            yield kind, measured(lambda _: read_net(out + '.prototxt'), out + '.caffemodel',
                                 arguments)


def main():
    arguments = parse_arguments()
    if arguments.device:
        caffe.set_device(arguments.device)
    print('| net | type | top-1, training, % | top-5 | top-1, validation, % | top-5 |')
    print('|---|---|---:|---:|---:|---:|')
    for model, path in arguments.weights:
        for kind, found in rows(model, path, arguments):
            print('| %s | %s | %s |' % (model, kind, ' | '.join('%.2f' % value for value in found)),
                  flush=True)


if __name__ == '__main__':
    main()
