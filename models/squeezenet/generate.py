#!/usr/bin/env python3
"""SqueezeNet v1.0 as a NetSpec script: writes deploy.prototxt and train_val.prototxt to its folder."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from imagenet import (L, MEAN, P, NetSpec, add_data, add_loss, finish,  # noqa: E402
                      image_input, write)

SIZE = 227
# Outputs of the modules fire2 … fire9: of the squeeze layer, of each expand layer.
MODULES = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
# Names of the layers in the released model, and in the one before it (FireNet).
NAMES = dict(squeeze='squeeze1x1', one='expand1x1', three='expand3x3', final='conv10',
             relu_final='relu_conv10', pool='pool10', relu1='relu_conv1')
EARLY_NAMES = dict(squeeze='conv1x1_1', one='conv1x1_2', three='conv3x3_2', final='conv_final',
                   relu_final='relu_conv_final', pool='pool_final', relu1='relu_conv1')


def conv(net, prefix, name, bottom, num_output, **window):
    full = prefix + name
    net[full] = L.Convolution(bottom, num_output=num_output, weight_filler=dict(type='xavier'),
                              **window)
    net[prefix + 'relu_' + name] = L.ReLU(net[full], in_place=True)
    return net[prefix + 'relu_' + name]


def fire(net, index, bottom, names):
    squeezed, expanded = MODULES[index - 2]
    prefix = 'fire%d/' % index
    x = conv(net, prefix, names['squeeze'], bottom, squeezed, kernel_size=1)
    branches = [conv(net, prefix, names['one'], x, expanded, kernel_size=1),
                conv(net, prefix, names['three'], x, expanded, kernel_size=3, pad=1)]
    net[prefix + 'concat'] = L.Concat(*branches)
    return net[prefix + 'concat']


def add_body(net, classes, names):
    """conv1 … the scores on net.data; returns the scores [N, classes, 1, 1]."""
    def max_pool(index, bottom):
        name = 'pool%d' % index
        net[name] = L.Pooling(bottom, pool=P.Pooling.MAX, kernel_size=3, stride=2)
        return net[name]

    x = max_pool(1, conv(net, '', 'conv1', net.data, 96, kernel_size=7, stride=2))
    for index in range(2, 10):
        x = fire(net, index, x, names)
        if index in (4, 8):
            x = max_pool(index, x)
    net.drop9 = L.Dropout(x, in_place=True, dropout_ratio=0.5)
    final = names['final']
    # The padding is part of the published net.
    net[final] = L.Convolution(net.drop9, num_output=classes, pad=1, kernel_size=1,
                               weight_filler=dict(type='gaussian', mean=0, std=0.01))
    net[names['relu_final']] = L.ReLU(net[final], in_place=True)
    net[names['pool']] = L.Pooling(net[names['relu_final']], pool=P.Pooling.AVE,
                                   global_pooling=True)
    return net[names['pool']]


def deploy(batch_size=10, size=SIZE, classes=1000, data_type=None, early=False):
    """The net for deployment: images in, probabilities out. early: with FireNet's names, and scores
    out."""
    net = NetSpec()
    image_input(net, batch_size, size)
    scores = add_body(net, classes, EARLY_NAMES if early else NAMES)
    if not early:
        net.prob = L.Softmax(scores)
    return finish(net, 'FireNet' if early else 'SqueezeNet', data_type)


def train_val(data=None, classes=1000, data_type=None):
    """The net of both phases. data: (size, batch size) for random images."""
    net = NetSpec()
    add_data(net, SIZE, (32, 25), data, mean_value=MEAN)
    add_loss(net, add_body(net, classes, NAMES))
    return finish(net, 'SqueezeNet', data_type)


if __name__ == '__main__':
    write(HERE, deploy=deploy(), train_val=train_val())
