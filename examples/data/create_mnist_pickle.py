#!/usr/bin/env python3
"""Writes mnist.pkl, which the thesis' listings 2.5 and 2.6 read, beside itself.

Three pairs of images [N, 784] (bytes 0-255) and labels [N]: 50,000 for training, 10,000 for
validation, 10,000 for testing.
"""
import argparse
import os
import pickle
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, 'mnist'))

import numpy as np  # noqa: E402

import create_mnist  # noqa: E402


def read_set(folder, part):
    with tempfile.TemporaryDirectory() as scratch:
        images, labels = [
            np.fromfile(create_mnist.idx_file(folder, part + name, scratch), np.uint8, offset=offset)
            for name, offset in (('-images-idx3-ubyte', 16), ('-labels-idx1-ubyte', 8))]
    return images.reshape(-1, 784), labels.astype(np.int64)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--data', help='folder with the IDX files (default: download them)')
    parser.add_argument('--output', default=os.path.join(HERE, 'mnist.pkl'))
    arguments = parser.parse_args()
    data = arguments.data
    if data is None:
        data = os.path.join(HERE, os.pardir, 'mnist', 'data')
        create_mnist.download(data)
    images, labels = read_set(data, 'train')
    sets = ((images[:50000], labels[:50000]), (images[50000:], labels[50000:]),
            read_set(data, 't10k'))
    with open(arguments.output, 'wb') as file:
        pickle.dump(sets, file)
    print('made', arguments.output)


if __name__ == '__main__':
    main()
