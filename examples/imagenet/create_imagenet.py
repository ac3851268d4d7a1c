#!/usr/bin/env python3
"""Makes the databases of ILSVRC2012 and their mean image, as Caffe's example does.

A list has lines "path class", with the paths below its folder. Images become --size pixels high and
wide. Writes ilsvrc12_train_lmdb, ilsvrc12_val_lmdb and imagenet_mean.binaryproto.
"""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.append(os.path.join(ROOT, 'examples', 'mnist'))
from create_mnist import default_tools, run_tool  # noqa: E402


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--train', required=True, metavar='LIST')
    parser.add_argument('--train_root', required=True, metavar='FOLDER')
    parser.add_argument('--val', required=True, metavar='LIST')
    parser.add_argument('--val_root', required=True, metavar='FOLDER')
    parser.add_argument('--size', type=int, default=256)
    parser.add_argument('--output', default=HERE, metavar='FOLDER')
    parser.add_argument('--tools', default=default_tools(), metavar='FOLDER',
                        help='with convert_imageset and compute_image_mean')
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    os.makedirs(arguments.output, exist_ok=True)

    def target(name):
        return os.path.join(arguments.output, name)

    for name, listed, root in (('train', arguments.train, arguments.train_root),
                               ('val', arguments.val, arguments.val_root)):
        run_tool(arguments.tools, 'convert_imageset', '--resize_height=%d' % arguments.size,
                 '--resize_width=%d' % arguments.size, '--shuffle', os.path.join(root, ''), listed,
                 target('ilsvrc12_%s_lmdb' % name))
    run_tool(arguments.tools, 'compute_image_mean', target('ilsvrc12_train_lmdb'),
             target('imagenet_mean.binaryproto'))


if __name__ == '__main__':
    main()
