#!/usr/bin/env python3
"""LeNet as a NetSpec script: writes lenet_train_test.prototxt and lenet.prototxt to its folder."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.append(os.path.join(ROOT, 'python'))  # unless it is installed

from caffe import layers as L, params as P, NetSpec  # noqa: E402

TRAIN, TEST = 0, 1


def add_body(net, types):
    """conv1 … ip2 on net.data. `types` are the keywords for the layers' data types."""
    def learned(**param):
        # The bias learns at twice the rate of the weights.
        return dict(param=[dict(lr_mult=1), dict(lr_mult=2)], weight_filler=dict(type='xavier'),
                    bias_filler=dict(type='constant'), **param, **types)

    pool = dict(pool=P.Pooling.MAX, kernel_size=2, stride=2, **types)
    net.conv1 = L.Convolution(net.data, **learned(num_output=20, kernel_size=5, stride=1))
    net.pool1 = L.Pooling(net.conv1, **pool)
    net.conv2 = L.Convolution(net.pool1, **learned(num_output=50, kernel_size=5, stride=1))
    net.pool2 = L.Pooling(net.conv2, **pool)
    net.ip1 = L.InnerProduct(net.pool2, **learned(num_output=500))
    net.relu1 = L.ReLU(net.ip1, in_place=True, **types)
    net.ip2 = L.InnerProduct(net.relu1, **learned(num_output=10))


def data_types(data_type):
    """The keywords that give a layer one type; empty for float, the default."""
    if data_type is None:
        return {}
    return dict(bottom_data_type=data_type, compute_data_type=data_type, top_data_type=data_type)


def train_test(train_db='examples/mnist/mnist_train_lmdb', test_db='examples/mnist/mnist_test_lmdb',
               data_type=None):
    """The net of both phases. Loss and accuracy are float in nets of every type."""
    def data(phase, source, batch_size):
        return L.Data(include=dict(phase=phase), transform_param=dict(scale=1 / 256),
                      source=source, batch_size=batch_size, backend=P.Data.LMDB, ntop=2)

    train_data, train_label = data(TRAIN, train_db, 64)
    test_data, test_label = data(TEST, test_db, 100)
    net = NetSpec()
    net.data = [train_data, test_data]
    net.label = [train_label, test_label]
    add_body(net, data_types(data_type))
    net.accuracy = L.Accuracy(net.ip2, net.label, include=dict(phase=TEST))
    net.loss = L.SoftmaxWithLoss(net.ip2, net.label)
    proto = net.to_proto()
    proto.name = 'LeNet'
    return proto


def deploy(batch_size=64, data_type=None):
    """The net for deployment: images in, probabilities out."""
    net = NetSpec()
    net.data = L.Input(shape=dict(dim=[batch_size, 1, 28, 28]))
    add_body(net, data_types(data_type))
    net.prob = L.Softmax(net.ip2)
    proto = net.to_proto()
    proto.name = 'LeNet'
    return proto


def main():
    for name, proto in (('lenet_train_test', train_test()), ('lenet', deploy())):
        with open(os.path.join(HERE, name + '.prototxt'), 'w') as file:
            file.write('# Written by generate.py.\n%s' % proto)


if __name__ == '__main__':
    main()
