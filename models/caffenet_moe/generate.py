#!/usr/bin/env python3
"""CaffeNet with a mixture of experts as a NetSpec script.

Writes deploy.prototxt and train_val.prototxt into its folder. With --types and --batches it writes
deploy_<type>_<batch>.prototxt for each combination into the folder of --output, or of the working
directory.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from imagenet import (L, LEARNED, P, NetSpec, add_data, add_loss, finish,  # noqa: E402
                      image_input, typed_nets, write)

SIZE, EXPERTS, SELECTED = 227, 16, 4


def filled(bias, std=0.01):
    return dict(param=LEARNED, weight_filler=dict(type='gaussian', std=std),
                bias_filler=dict(type='constant', value=bias))


def relu(net, name, bottom):
    net[name] = L.ReLU(bottom, in_place=True)
    return net[name]


def shrunk(net, index, bottom):
    """Pooling and normalisation."""
    net['pool%d' % index] = L.Pooling(bottom, pool=P.Pooling.MAX, kernel_size=3, stride=2)
    net['norm%d' % index] = L.LRN(net['pool%d' % index], local_size=5, alpha=1e-4, beta=0.75)
    return net['norm%d' % index]


def second_convolution(net):
    """conv2 … norm2 on net.data, which the gating net and each expert have."""
    net.conv2 = L.Convolution(net.data, num_output=64, pad=2, kernel_size=5, group=2, **filled(0.5))
    return shrunk(net, 2, relu(net, 'relu2', net.conv2))


def gating():
    """The probability of each expert; while training, plus noise of a learned size."""
    net = NetSpec()
    net.data = L.Input()
    net.fc1 = L.InnerProduct(second_convolution(net), num_output=128, **filled(0.5))
    hidden = relu(net, 'relu3', net.fc1)
    fixed_bias = dict(filled(0), param=[LEARNED[0], dict(lr_mult=0, decay_mult=0)])
    net.fc2 = L.InnerProduct(hidden, num_output=EXPERTS, **fixed_bias)
    net.fc3 = L.InnerProduct(hidden, num_output=EXPERTS, **fixed_bias)
    net.noise = L.Noise(relu(net, 'relu4', net.fc3), mu=0, sigma=1, per_element=True)
    net.sum = L.Eltwise(net.fc2, net.noise)
    net.gate = L.Softmax(net.sum)
    return net


def expert(fc6=1024, fc7=2048):
    """What lies between the first convolution and the classes."""
    net = NetSpec()
    net.data = L.Input()
    net.conv3 = L.Convolution(second_convolution(net), num_output=96, pad=1, kernel_size=3,
                              **filled(0))
    net.conv4 = L.Convolution(relu(net, 'relu3', net.conv3), num_output=96, pad=1, kernel_size=3,
                              group=2, **filled(0.5))
    net.conv5 = L.Convolution(relu(net, 'relu4', net.conv4), num_output=64, pad=1, kernel_size=3,
                              group=2, **filled(0.5))
    net.pool5 = L.Pooling(relu(net, 'relu5', net.conv5), pool=P.Pooling.MAX, kernel_size=3, stride=2)
    net.fc6 = L.InnerProduct(net.pool5, num_output=fc6, **filled(0.5, 0.005))
    net.drop6 = L.Dropout(relu(net, 'relu6', net.fc6), in_place=True, dropout_ratio=0.5)
    net.fc7 = L.InnerProduct(net.drop6, num_output=fc7, **filled(0.5, 0.005))
    return net


def add_body(net, classes, balance=None, **sizes):
    """conv1 … fc8 on net.data. balance: the mixture's losses while training."""
    net.conv1 = L.Convolution(net.data, num_output=48, kernel_size=11, stride=4, **filled(0))
    bottom = shrunk(net, 1, relu(net, 'relu1', net.conv1))
    net.moe = L.MOE(bottom, gating=gating(), expert=expert(**sizes), experts=EXPERTS,
                    select=SELECTED, **(balance or {}))
    net.drop7 = L.Dropout(relu(net, 'relu7', net.moe), in_place=True, dropout_ratio=0.5)
    net.fc8 = L.InnerProduct(net.drop7, num_output=classes, **filled(0))


def deploy(batch_size=10, size=SIZE, classes=1000, data_type=None, **sizes):
    """The net for deployment: images in, probabilities out."""
    net = NetSpec()
    image_input(net, batch_size, size)
    add_body(net, classes, **sizes)
    net.prob = L.Softmax(net.fc8)
    return finish(net, 'CaffeNet-MOE', data_type)


def train_val(data=None, classes=1000, data_type=None, **sizes):
    """The net of both phases. data: (size, batch size) for random images."""
    net = NetSpec()
    add_data(net, SIZE, (128, 50), data, mean_file='data/ilsvrc12/imagenet_mean.binaryproto')
    add_body(net, classes, dict(load_balance_loss_weight=0.5, z_loss_weight=0.001), **sizes)
    add_loss(net, net.fc8)
    return finish(net, 'CaffeNet-MOE', data_type)


if __name__ == '__main__':
    if not typed_nets(deploy, __doc__):
        write(HERE, deploy=deploy(), train_val=train_val())
