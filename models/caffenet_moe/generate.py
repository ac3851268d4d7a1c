#!/usr/bin/env python3
"""CaffeNet with a mixture of experts as a NetSpec script.

Writes deploy.prototxt and train_val.prototxt into its folder, and the same two with the gate and the
balance of the thesis (Tschopp 2018, equations 1.9 to 1.11) as thesis_deploy.prototxt and
thesis_train_val.prototxt. With --types and --batches it writes deploy_<type>_<batch>.prototxt for
each combination into the folder of --output, or of the working directory; with --thesis these are
nets of the thesis.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from imagenet import (L, LEARNED, P, TEST, TRAIN, NetSpec, add_data, add_loss,  # noqa: E402
                      finish, image_input, typed_nets, write)

SIZE, EXPERTS, SELECTED = 227, 16, 4
TRAIN_BATCH, TEST_BATCH = 128, 50
# The weight of equation 1.11 in the published net: the mean over the experts of the squared error
# of the use. Its EuclideanLoss has half the sum over the experts, with the weight 15.
BALANCE = 15 * EXPERTS / 2


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


def gating(wide_noise=()):
    """The probability of each expert; while training, plus noise of a learned size. wide_noise: the
    noise of the thesis instead, with one number for each image, and a third term that is random in
    both phases: (phase or None, batch size) of its layers."""
    net = NetSpec()
    net.data = L.Input()
    net.fc1 = L.InnerProduct(second_convolution(net), num_output=128, **filled(0.5))
    hidden = relu(net, 'relu3', net.fc1)
    fixed_bias = dict(filled(0), param=[LEARNED[0], dict(lr_mult=0, decay_mult=0)])
    net.fc2 = L.InnerProduct(hidden, num_output=EXPERTS, **fixed_bias)
    net.fc3 = L.InnerProduct(hidden, num_output=EXPERTS, **fixed_bias)
    net.noise = L.Noise(relu(net, 'relu4', net.fc3), mu=0, sigma=1, per_element=not wide_noise)
    terms = [net.fc2, net.noise]
    if wide_noise:
        layers = [L.DummyData(name='wide', shape=dict(dim=[batch, EXPERTS]),
                              data_filler=dict(type='gaussian', std=10),
                              **({} if phase is None else dict(include=dict(phase=phase))))
                  for phase, batch in wide_noise]
        net.wide = layers if len(layers) > 1 else layers[0]
        # w(c) begins as 1, and learns slowly.
        net.wide_scaled = L.Scale(net.wide, filler=dict(type='constant', value=1),
                                  param=dict(lr_mult=1e-5, decay_mult=0))
        terms.append(net.wide_scaled)
    net.sum = L.Eltwise(*terms)
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


def equation_1_11(net, weight):
    """weight times the mean over the experts of (K / N - use)^2 in training."""
    net.reg = L.EuclideanLoss(net.use, net.expected_use, include=dict(phase=TRAIN),
                              loss_weight=2 * weight / EXPERTS)
    net.unused = L.Silence(net.use, net.expected_use, include=dict(phase=TEST), ntop=0)


def add_body(net, classes, balance=None, wide_noise=(), **sizes):
    """conv1 … fc8 on net.data. balance: the mixture's losses while training. wide_noise: of
    gating()."""
    net.conv1 = L.Convolution(net.data, num_output=48, kernel_size=11, stride=4, **filled(0))
    bottom = shrunk(net, 1, relu(net, 'relu1', net.conv1))
    mixture = dict(gating=gating(wide_noise), expert=expert(**sizes), experts=EXPERTS,
                   select=SELECTED, **(balance or {}))
    if wide_noise:
        net.moe, net.use, net.expected_use = L.MOE(bottom, ntop=3, **mixture)
    else:
        net.moe = L.MOE(bottom, **mixture)
    net.drop7 = L.Dropout(relu(net, 'relu7', net.moe), in_place=True, dropout_ratio=0.5)
    net.fc8 = L.InnerProduct(net.drop7, num_output=classes, **filled(0))


def deploy(batch_size=10, size=SIZE, classes=1000, data_type=None, **sizes):
    """The net for deployment: images in, probabilities out."""
    net = NetSpec()
    image_input(net, batch_size, size)
    add_body(net, classes, **sizes)
    net.prob = L.Softmax(net.fc8)
    return finish(net, 'CaffeNet-MOE', data_type)


def thesis_deploy(batch_size=10, size=SIZE, classes=1000, data_type=None, **sizes):
    """The thesis' net for deployment. Its gate is random in this phase, too, and has a fixed batch."""
    net = NetSpec()
    image_input(net, batch_size, size)
    add_body(net, classes, wide_noise=[(None, batch_size)], **sizes)
    net.unused = L.Silence(net.use, net.expected_use, ntop=0)
    net.prob = L.Softmax(net.fc8)
    return finish(net, 'CaffeNet-MOE of the thesis', data_type)


def thesis_train_val(data=None, classes=1000, data_type=None, batches=(TRAIN_BATCH, TEST_BATCH),
                     balance=BALANCE, **sizes):
    """The thesis' net of both phases. data: (size, batch size) for random images. balance: the
    weight of equation 1.11."""
    net = NetSpec()
    add_data(net, SIZE, batches, data, mean_file='data/ilsvrc12/imagenet_mean.binaryproto')
    wide_noise = [(None, data[1])] if data else [(TRAIN, batches[0]), (TEST, batches[1])]
    add_body(net, classes, wide_noise=wide_noise, **sizes)
    equation_1_11(net, balance)
    add_loss(net, net.fc8)
    return finish(net, 'CaffeNet-MOE of the thesis', data_type)


def train_val(data=None, classes=1000, data_type=None, **sizes):
    """The net of both phases. data: (size, batch size) for random images."""
    net = NetSpec()
    add_data(net, SIZE, (TRAIN_BATCH, TEST_BATCH), data,
             mean_file='data/ilsvrc12/imagenet_mean.binaryproto')
    add_body(net, classes, dict(load_balance_loss_weight=0.5, z_loss_weight=0.001), **sizes)
    add_loss(net, net.fc8)
    return finish(net, 'CaffeNet-MOE', data_type)


if __name__ == '__main__':
    if not typed_nets(deploy, __doc__, thesis=thesis_deploy):
        write(HERE, deploy=deploy(), train_val=train_val(), thesis_deploy=thesis_deploy(),
              thesis_train_val=thesis_train_val())
