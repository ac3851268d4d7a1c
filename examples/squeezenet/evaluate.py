#!/usr/bin/env python3
"""Classifies the images of a list with SqueezeNet and counts the correct classes.

Images are decoded, cropped to the centre of 227x227 and reduced by the mean of each channel; the
class is that of the largest score. Prints the number of hits and the time; --classes writes the
class of every image.
"""
import argparse
import os
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, os.pardir, os.pardir, 'python'))  # unless it is installed

import caffe  # noqa: E402  (first: its error says how to install missing packages)
import numpy as np  # noqa: E402
from google.protobuf import text_format  # noqa: E402
from PIL import Image  # noqa: E402

from caffe.proto import caffe_pb2  # noqa: E402

SIZE = 227
MEAN = np.array((104, 117, 123), np.float32)  # of blue, green and red
TYPES = {'float': caffe_pb2.CAFFE_FLOAT, 'half': caffe_pb2.CAFFE_HALF,
         'bfloat16': caffe_pb2.CAFFE_BFLOAT16, 'double': caffe_pb2.CAFFE_DOUBLE}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('data', help='folder with squeezenet/ and imagenet-sample/')
    parser.add_argument('--device', default='cpu', help='cpu, cuda:0, opencl:0, … (default: cpu)')
    parser.add_argument('--type', choices=TYPES, default='float')
    parser.add_argument('--batch', type=int, default=25, help='images at a time')
    parser.add_argument('--count', type=int, help='only the first images of the list')
    parser.add_argument('--classes', metavar='FILE', help='write one class a line')
    return parser.parse_args()


def read_list(data, count=None):
    """Paths and labels of imagenet-sample/val.txt."""
    folder = os.path.join(data, 'imagenet-sample')
    with open(os.path.join(folder, 'val.txt'), encoding='utf-8-sig') as file:
        rows = [line.split() for line in file][:count]
    return [(os.path.join(folder, path), int(label)) for path, label in rows]


def load_image(path):
    """The centre of an image as input of the net: float [3, 227, 227], blue first."""
    pixels = np.asarray(Image.open(path).convert('RGB'))[:, :, ::-1]
    top, left = ((extent - SIZE) // 2 for extent in pixels.shape[:2])
    crop = pixels[top:top + SIZE, left:left + SIZE].astype(np.float32)
    return (crop - MEAN).transpose(2, 0, 1)


def make_net(data, batch, data_type='float'):
    """The net with its trained weights, all layers of one type."""
    folder = os.path.join(data, 'squeezenet')
    with open(os.path.join(folder, 'deploy.prototxt')) as file:
        proto = text_format.Parse(file.read(), caffe_pb2.NetParameter())
    proto.input_dim[0] = batch
    if data_type != 'float':
        for layer in proto.layer:
            layer.bottom_data_type = layer.compute_data_type = TYPES[data_type]
            layer.top_data_type = TYPES[data_type]
    with tempfile.NamedTemporaryFile('w', suffix='.prototxt') as file:
        file.write(str(proto))
        file.flush()
        return caffe.Net(file.name, caffe.TEST,
                         weights=os.path.join(folder, 'squeezenet_v1.0.caffemodel'))


def classify(net, paths):
    """The class of each image, and the seconds that the net took."""
    output = net.outputs[0]
    batch = net.blobs['data'].data.shape[0]
    classes, seconds = [], 0
    for start in range(0, len(paths), batch):
        chunk = paths[start:start + batch]
        net.blobs['data'].data[:len(chunk)] = [load_image(path) for path in chunk]
        begin = time.perf_counter()
        scores = net.forward()[output].reshape(batch, -1).astype(np.float64)
        seconds += time.perf_counter() - begin
        classes += scores[:len(chunk)].argmax(axis=1).tolist()
    return classes, seconds


def main():
    arguments = parse_arguments()
    caffe.set_device(arguments.device)
    rows = read_list(arguments.data, arguments.count)
    net = make_net(arguments.data, arguments.batch, arguments.type)
    classes, seconds = classify(net, [path for path, _ in rows])
    right = sum(found == label for found, (_, label) in zip(classes, rows))
    print('%s on %s: %d of %d right (%.1f %%), %.1f ms an image' % (
        arguments.type, arguments.device, right, len(rows), 100 * right / len(rows),
        1000 * seconds / len(rows)))
    if arguments.classes:
        with open(arguments.classes, 'w') as file:
            file.writelines('%d\n' % found for found in classes)


if __name__ == '__main__':
    main()
