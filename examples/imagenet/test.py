#!/usr/bin/env python3
"""Measures the accuracy of a net on the validation images of ILSVRC2012.

The net is a model with float weights, or a prototxt and a caffemodel of calibrate.py.
"""
import argparse
import time

from imagenet_net import (HERE, MODELS, TYPES, accuracy_line, caffe, read_net, train_val,
                          with_data)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--model', choices=MODELS, default='caffenet')
    parser.add_argument('--net', metavar='FILE', help='a prototxt instead of --model')
    parser.add_argument('--weights', required=True, metavar='FILE')
    parser.add_argument('--data', default=HERE, metavar='FOLDER')
    parser.add_argument('--device', help='cpu, cuda:0, opencl:1, … (default: the best there is)')
    parser.add_argument('--type', choices=TYPES, default='float', help='of --model')
    parser.add_argument('--batch', type=int, default=50, help='images at a time (default: 50)')
    parser.add_argument('--batches', type=int, default=1000, help='default: all 50,000 images')
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    if arguments.device:
        caffe.set_device(arguments.device)
    if arguments.net:
        net = with_data(read_net(arguments.net), arguments.data, batch=arguments.batch)
    else:
        net = train_val(arguments.model, arguments.data, TYPES[arguments.type],
                        batch=arguments.batch)
    net = caffe.Net(net, caffe.TEST, weights=arguments.weights)
    begin = time.perf_counter()
    line = accuracy_line(net, arguments.batches)
    print('%s; %.1f s' % (line, time.perf_counter() - begin))


if __name__ == '__main__':
    main()
