#!/usr/bin/env python3
"""VGG-16 as a NetSpec script: writes deploy.prototxt and train_val.prototxt into its folder."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from imagenet import (L, LEARNED, P, NetSpec, add_data, add_loss, finish,  # noqa: E402
                      image_input, write)

SIZE = 224
MEAN = (103.939, 116.779, 123.68)
# Convolutions and outputs of the five blocks (configuration D of the paper).
BLOCKS = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))


def filled(kind, **more):
    return dict(param=LEARNED, weight_filler=dict(type=kind, **more),
                bias_filler=dict(type='constant', value=0))


def add_body(net, classes, fc):
    """conv1_1 … fc8 on net.data."""
    x = net.data
    for block, (count, outputs) in enumerate(BLOCKS, 1):
        for index in range(1, count + 1):
            name = '%d_%d' % (block, index)
            # Deep plain nets do not converge from the paper's gaussian of 0.01.
            net['conv' + name] = L.Convolution(x, num_output=outputs, kernel_size=3, pad=1,
                                               **filled('msra'))
            x = net['relu' + name] = L.ReLU(net['conv' + name], in_place=True)
        x = net['pool%d' % block] = L.Pooling(x, pool=P.Pooling.MAX, kernel_size=2, stride=2)
    for index in (6, 7):
        fully = 'fc%d' % index
        net[fully] = L.InnerProduct(x, num_output=fc, **filled('gaussian', std=0.005))
        net['relu%d' % index] = L.ReLU(net[fully], in_place=True)
        net['drop%d' % index] = L.Dropout(net['relu%d' % index], in_place=True, dropout_ratio=0.5)
        x = net['drop%d' % index]
    net.fc8 = L.InnerProduct(x, num_output=classes, **filled('gaussian', std=0.01))


def deploy(batch_size=10, size=SIZE, classes=1000, fc=4096, data_type=None):
    """The net for deployment: images in, probabilities out."""
    net = NetSpec()
    image_input(net, batch_size, size)
    add_body(net, classes, fc)
    net.prob = L.Softmax(net.fc8)
    return finish(net, 'VGG_ILSVRC_16_layers', data_type)


def train_val(data=None, classes=1000, fc=4096, data_type=None):
    """The net of both phases. data: (size, batch size) for random images."""
    net = NetSpec()
    add_data(net, SIZE, (64, 50), data, mean_value=MEAN)
    add_body(net, classes, fc)
    add_loss(net, net.fc8)
    return finish(net, 'VGG_ILSVRC_16_layers', data_type)


if __name__ == '__main__':
    write(HERE, deploy=deploy(), train_val=train_val())
