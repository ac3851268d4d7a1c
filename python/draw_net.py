#!/usr/bin/env python3
"""Draws a net: draw_net.py net.prototxt picture.png (or .svg, .pdf, .dot, ...)."""
import argparse
import sys

sys.path.append(sys.path.pop(0))  # an installed package goes before the built tree's

import caffe  # noqa: E402
import caffe.draw  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('input_net_proto_file', help='the net as prototxt')
    parser.add_argument('output_image_file', help='the extension selects the format; .dot: as text')
    parser.add_argument('--rankdir', default='LR', choices=['LR', 'TB', 'BT', 'RL'],
                        help='from left to right (the default), from top to bottom, ...')
    parser.add_argument('--phase', default='ALL', choices=['TRAIN', 'TEST', 'ALL'],
                        help='only the layers of this phase')
    parser.add_argument('--display_lrm', action='store_true',
                        help='show the factors on the learning rate')
    arguments = parser.parse_args()
    phase = {'TRAIN': caffe.TRAIN, 'TEST': caffe.TEST, 'ALL': None}[arguments.phase]
    try:
        net = caffe.io.read_net(arguments.input_net_proto_file)
        caffe.draw.draw_net_to_file(net, arguments.output_image_file, arguments.rankdir, phase,
                                    arguments.display_lrm)
    except (OSError, RuntimeError, ValueError) as error:
        sys.exit('draw_net.py: %s' % error)
    name = net.name if net.name.isprintable() else repr(net.name)
    print('drew', name or 'the net', 'to', arguments.output_image_file)


if __name__ == '__main__':
    main()
