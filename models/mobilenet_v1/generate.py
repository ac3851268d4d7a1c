#!/usr/bin/env python3
"""MobileNet v1 as a NetSpec script: writes deploy.prototxt and train_val.prototxt to its folder."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from imagenet import (L, LEARNED, P, NetSpec, add_data, add_loss, finish,  # noqa: E402
                      image_input, write)

SIZE = 224
MEAN = (103.94, 116.78, 123.68)
SCALE = 0.017
# Pairs of a depthwise and a pointwise convolution: name, inputs, outputs, stride.
PAIRS = (('2_1', 32, 64, 1), ('2_2', 64, 128, 2), ('3_1', 128, 128, 1), ('3_2', 128, 256, 2),
         ('4_1', 256, 256, 1), ('4_2', 256, 512, 2), ('5_1', 512, 512, 1), ('5_2', 512, 512, 1),
         ('5_3', 512, 512, 1), ('5_4', 512, 512, 1), ('5_5', 512, 512, 1), ('5_6', 512, 1024, 2),
         ('6', 1024, 1024, 1))


def conv(net, name, bottom, **param):
    """conv<name> with its BatchNorm, Scale and relu<name>."""
    full = 'conv' + name
    net[full] = L.Convolution(bottom, bias_term=False, weight_filler=dict(type='msra'),
                              param=[dict(lr_mult=1, decay_mult=1)], **param)
    # The three running blobs are not learned.
    net[full + '/bn'] = L.BatchNorm(net[full], param=[dict(lr_mult=0, decay_mult=0)] * 3)
    net[full + '/scale'] = L.Scale(net[full + '/bn'], in_place=True, bias_term=True)
    net['relu' + name] = L.ReLU(net[full + '/scale'], in_place=True)
    return net['relu' + name]


def add_body(net, classes):
    """conv1 … fc7 on net.data; fc7 is [N, classes, 1, 1]."""
    x = conv(net, '1', net.data, num_output=32, kernel_size=3, stride=2, pad=1)
    for name, inputs, outputs, stride in PAIRS:
        x = conv(net, name + '/dw', x, num_output=inputs, group=inputs, kernel_size=3, pad=1,
                 stride=stride)
        x = conv(net, name + '/sep', x, num_output=outputs, kernel_size=1)
    net.pool6 = L.Pooling(x, pool=P.Pooling.AVE, global_pooling=True)
    net.fc7 = L.Convolution(net.pool6, num_output=classes, kernel_size=1, param=LEARNED,
                            weight_filler=dict(type='msra'),
                            bias_filler=dict(type='constant', value=0))


def deploy(batch_size=1, size=SIZE, classes=1000, data_type=None):
    """The net for deployment: images in, probabilities out."""
    net = NetSpec()
    image_input(net, batch_size, size)
    add_body(net, classes)
    net.prob = L.Softmax(net.fc7)
    return finish(net, 'MobileNet', data_type)


def train_val(data=None, classes=1000, data_type=None):
    """The net of both phases. data: (size, batch size) for random images."""
    net = NetSpec()
    add_data(net, SIZE, (64, 50), data, mean_value=MEAN, scale=SCALE)
    add_body(net, classes)
    add_loss(net, net.fc7)
    return finish(net, 'MobileNet', data_type)


if __name__ == '__main__':
    write(HERE, deploy=deploy(), train_val=train_val())
