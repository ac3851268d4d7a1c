#!/usr/bin/env python3
"""Calibrates a trained net on training images of ILSVRC2012 and stores it in a narrow type.

Writes PREFIX.prototxt, PREFIX.caffemodel, and a report as PREFIX.json and PREFIX.html. The databases
are those of create_imagenet.py; test.py measures the accuracy on the validation images.
"""
import argparse

from imagenet_net import HERE, MODELS, caffe, train_val


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--model', choices=MODELS, default='caffenet')
    parser.add_argument('--weights', required=True, metavar='FILE')
    parser.add_argument('--data', default=HERE, metavar='FOLDER')
    parser.add_argument('--device', help='cpu, cuda:0, opencl:1, … (default: the best there is)')
    parser.add_argument('--type', choices=('int8', 'int16', 'half', 'bfloat16'), default='int8')
    parser.add_argument('--batches', type=int, default=10, help='for calibration (default: 10)')
    parser.add_argument('--held_out', type=int, default=10,
                        help='batches to compare with the float net (default: 10)')
    parser.add_argument('--batch', type=int, default=50, help='images at a time (default: 50)')
    parser.add_argument('--method', default='auto')
    parser.add_argument('--bias_correction', action='store_true')
    parser.add_argument('--out', required=True, metavar='PREFIX')
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    if arguments.device:
        caffe.set_device(arguments.device)
    net = train_val(arguments.model, arguments.data, batch=arguments.batch, test='train')
    report = caffe.quantize((net, arguments.weights), type=arguments.type, out=arguments.out,
                            method=arguments.method, calibrate=arguments.batches,
                            held_out=arguments.held_out,
                            bias_correction=arguments.bias_correction)
    print('%d images to calibrate; the same class as float for %.2f %% of %d others' % (
        report['calibration_items'], report['agreement'], report['held_out_items']))
    print('%d bytes of weights, %.3f of float' % (report['bytes'],
                                                  report['bytes'] / report['float_bytes']))


if __name__ == '__main__':
    main()
