#!/usr/bin/env python3
"""LeNet with a mixture of experts as a NetSpec script.

Writes lenet_moe.prototxt and lenet_moe_train_test.prototxt into its folder. With --types and
--batches it writes deploy_<type>_<batch>.prototxt for each combination into the folder of --output,
or of the working directory.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from imagenet import L, P, TEST, TRAIN, NetSpec, finish, typed_nets, write  # noqa: E402

EXPERTS, SELECTED = 9, 3


def learned(**param):
    # The bias learns at twice the rate of the weights.
    return dict(param=[dict(lr_mult=1), dict(lr_mult=2)], weight_filler=dict(type='xavier'),
                bias_filler=dict(type='constant'), **param)


def gating():
    """The probability of each expert; while training, plus noise of a learned size."""
    net = NetSpec()
    net.data = L.Input()
    net.ip1 = L.InnerProduct(net.data, **learned(num_output=25))
    net.relu1 = L.ReLU(net.ip1, in_place=True)
    net.ip2 = L.InnerProduct(net.relu1, **learned(num_output=EXPERTS))
    net.ip3 = L.InnerProduct(net.relu1, **learned(num_output=EXPERTS))
    net.relu3 = L.ReLU(net.ip3, in_place=True)
    net.noise = L.Noise(net.relu3, mu=0, sigma=0.1, per_element=True)
    net.sum = L.Eltwise(net.ip2, net.noise)
    net.gate = L.Softmax(net.sum)
    return net


def expert():
    net = NetSpec()
    net.data = L.Input()
    net.conv2 = L.Convolution(net.data, **learned(num_output=5, kernel_size=5))
    net.pool2 = L.Pooling(net.conv2, pool=P.Pooling.MAX, kernel_size=2, stride=2)
    net.ip2 = L.InnerProduct(net.pool2, **learned(num_output=25))
    return net


def add_body(net, balance=None):
    """conv1 … ip3 on net.data. balance: the mixture's losses while training."""
    net.conv1 = L.Convolution(net.data, **learned(num_output=10, kernel_size=5))
    net.pool1 = L.Pooling(net.conv1, pool=P.Pooling.MAX, kernel_size=2, stride=2)
    net.moe = L.MOE(net.pool1, gating=gating(), expert=expert(), experts=EXPERTS, select=SELECTED,
                    **(balance or {}))
    net.relu1 = L.ReLU(net.moe, in_place=True)
    net.ip3 = L.InnerProduct(net.relu1, **learned(num_output=10))


def deploy(batch_size=64, data_type=None):
    """The net for deployment: images in, probabilities out."""
    net = NetSpec()
    net.data = L.Input(shape=dict(dim=[batch_size, 1, 28, 28]))
    add_body(net)
    net.prob = L.Softmax(net.ip3)
    return finish(net, 'LeNet-MOE', data_type)


def train_test(train_db='examples/mnist/mnist_train_lmdb', test_db='examples/mnist/mnist_test_lmdb',
               data_type=None):
    """The net of both phases."""
    def data(phase, source, batch_size):
        return L.Data(include=dict(phase=phase), transform_param=dict(scale=1 / 256),
                      source=source, batch_size=batch_size, backend=P.Data.LMDB, ntop=2)

    train_data, train_label = data(TRAIN, train_db, 128)
    test_data, test_label = data(TEST, test_db, 100)
    net = NetSpec()
    net.data = [train_data, test_data]
    net.label = [train_label, test_label]
    add_body(net, dict(load_balance_loss_weight=0.5, z_loss_weight=0.001))
    net.accuracy = L.Accuracy(net.ip3, net.label, include=dict(phase=TEST))
    net.loss = L.SoftmaxWithLoss(net.ip3, net.label)
    return finish(net, 'LeNet-MOE', data_type)


if __name__ == '__main__':
    if not typed_nets(deploy, __doc__):
        write(HERE, lenet_moe=deploy(), lenet_moe_train_test=train_test())
