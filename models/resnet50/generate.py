#!/usr/bin/env python3
"""ResNet-50 as a NetSpec script: writes deploy.prototxt and train_val.prototxt into its folder."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from imagenet import (L, MEAN, P, NetSpec, add_data, add_loss, finish,  # noqa: E402
                      image_input, write)

SIZE = 224
# Blocks of the stages 2 … 5, and the outputs of their inner convolutions.
STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))


def normalised(net, conv, suffix, bottom, **param):
    """A convolution with its BatchNorm and Scale, bn<suffix> and scale<suffix>, in place."""
    net[conv] = L.Convolution(bottom, weight_filler=dict(type='msra'), **param)
    # The three running blobs are not learned.
    net['bn' + suffix] = L.BatchNorm(net[conv], in_place=True, param=[dict(lr_mult=0)] * 3)
    net['scale' + suffix] = L.Scale(net['bn' + suffix], in_place=True, bias_term=True)
    return net['scale' + suffix]


def rectified(net, name, bottom):
    net[name] = L.ReLU(bottom, in_place=True)
    return net[name]


def block(net, name, bottom, width, stride, project):
    """A bottleneck: 1x1, 3x3, 1x1 with four times the outputs, added to its input."""
    def branch(suffix, x, **param):
        full = name + '_branch' + suffix
        return normalised(net, 'res' + full, full, x, bias_term=False, **param)

    shortcut = bottom
    if project:
        shortcut = branch('1', bottom, num_output=4 * width, kernel_size=1, stride=stride)
    x = branch('2a', bottom, num_output=width, kernel_size=1, stride=stride)
    x = rectified(net, 'res%s_branch2a_relu' % name, x)
    x = branch('2b', x, num_output=width, kernel_size=3, pad=1)
    x = rectified(net, 'res%s_branch2b_relu' % name, x)
    x = branch('2c', x, num_output=4 * width, kernel_size=1)
    net['res' + name] = L.Eltwise(shortcut, x)
    return rectified(net, 'res%s_relu' % name, net['res' + name])


def add_body(net, classes):
    """conv1 … fc1000 on net.data."""
    # The published model of 50 layers, unlike the deeper ones, has a bias here.
    x = normalised(net, 'conv1', '_conv1', net.data, num_output=64, kernel_size=7, stride=2, pad=3)
    net.pool1 = L.Pooling(rectified(net, 'conv1_relu', x), pool=P.Pooling.MAX, kernel_size=3,
                          stride=2)
    x = net.pool1
    for stage, (blocks, width) in enumerate(STAGES, 2):
        for index in range(blocks):
            stride = 2 if index == 0 and stage > 2 else 1
            x = block(net, '%d%s' % (stage, 'abcdef'[index]), x, width, stride, index == 0)
    net.pool5 = L.Pooling(x, pool=P.Pooling.AVE, kernel_size=7, stride=1)
    net.fc1000 = L.InnerProduct(net.pool5, num_output=classes, weight_filler=dict(type='xavier'))


def deploy(batch_size=1, size=SIZE, classes=1000, data_type=None):
    """The net for deployment: images in, probabilities out."""
    net = NetSpec()
    image_input(net, batch_size, size)
    add_body(net, classes)
    net.prob = L.Softmax(net.fc1000)
    return finish(net, 'ResNet-50', data_type)


def train_val(data=None, classes=1000, data_type=None):
    """The net of both phases. data: (size, batch size) for random images."""
    net = NetSpec()
    add_data(net, SIZE, (32, 25), data, mean_value=MEAN)
    add_body(net, classes)
    add_loss(net, net.fc1000)
    return finish(net, 'ResNet-50', data_type)


if __name__ == '__main__':
    write(HERE, deploy=deploy(), train_val=train_val())
