#!/usr/bin/env python3
"""CIFAR-10 quick as a NetSpec script: writes cifar10_quick_train_test.prototxt and
cifar10_quick.prototxt into its folder."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.append(os.path.join(ROOT, 'python'))  # unless it is installed

from caffe import layers as L, params as P, NetSpec  # noqa: E402

TRAIN, TEST = 0, 1
FOLDER = 'examples/cifar10/'


def add_body(net):
    """conv1 … ip2 on net.data."""
    def learned(std, **param):
        # The bias learns at twice the rate of the weights.
        return dict(param=[dict(lr_mult=1), dict(lr_mult=2)],
                    weight_filler=dict(type='gaussian', std=std),
                    bias_filler=dict(type='constant'), **param)

    def convolution(bottom, outputs, std):
        return L.Convolution(bottom, **learned(std, num_output=outputs, kernel_size=5, pad=2))

    pool = dict(kernel_size=3, stride=2)
    net.conv1 = convolution(net.data, 32, 0.0001)
    net.pool1 = L.Pooling(net.conv1, pool=P.Pooling.MAX, **pool)
    net.relu1 = L.ReLU(net.pool1, in_place=True)
    net.conv2 = convolution(net.relu1, 32, 0.01)
    net.relu2 = L.ReLU(net.conv2, in_place=True)
    net.pool2 = L.Pooling(net.relu2, pool=P.Pooling.AVE, **pool)
    net.conv3 = convolution(net.pool2, 64, 0.01)
    net.relu3 = L.ReLU(net.conv3, in_place=True)
    net.pool3 = L.Pooling(net.relu3, pool=P.Pooling.AVE, **pool)
    net.ip1 = L.InnerProduct(net.pool3, **learned(0.1, num_output=64))
    net.ip2 = L.InnerProduct(net.ip1, **learned(0.1, num_output=10))


def train_test(train_db=FOLDER + 'cifar10_train_lmdb', test_db=FOLDER + 'cifar10_test_lmdb',
               mean=FOLDER + 'mean.binaryproto', data_type=None):
    """The net of both phases, in batches of 100."""
    def data(phase, source):
        return L.Data(include=dict(phase=phase), transform_param=dict(mean_file=mean),
                      source=source, batch_size=100, backend=P.Data.LMDB, ntop=2)

    train_data, train_label = data(TRAIN, train_db)
    test_data, test_label = data(TEST, test_db)
    net = NetSpec()
    net.data = [train_data, test_data]
    net.label = [train_label, test_label]
    add_body(net)
    net.accuracy = L.Accuracy(net.ip2, net.label, include=dict(phase=TEST))
    net.loss = L.SoftmaxWithLoss(net.ip2, net.label)
    proto = net.to_proto()
    proto.name = 'CIFAR10_quick'
    if data_type is not None:
        proto.data_type = data_type
    return proto


def deploy(batch_size=1):
    """The net for deployment: images minus the mean in, probabilities out."""
    net = NetSpec()
    net.data = L.Input(shape=[dict(dim=[batch_size, 3, 32, 32])])
    add_body(net)
    net.prob = L.Softmax(net.ip2)
    proto = net.to_proto()
    proto.name = 'CIFAR10_quick'
    return proto


if __name__ == '__main__':
    for name, proto in (('cifar10_quick_train_test', train_test()), ('cifar10_quick', deploy())):
        with open(os.path.join(HERE, name + '.prototxt'), 'w') as file:
            print('# Written by generate.py.\n%s' % proto, file=file, end='')
