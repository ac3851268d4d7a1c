#!/usr/bin/env python3
"""AlexNet as a NetSpec script: writes deploy.prototxt and train_val.prototxt into its folder."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from imagenet import (L, LEARNED, P, NetSpec, add_data, add_loss, finish,  # noqa: E402
                      image_input, write)

SIZE = 227


def filled(std, bias):
    return dict(param=LEARNED, weight_filler=dict(type='gaussian', std=std),
                bias_filler=dict(type='constant', value=bias))


def add_body(net, classes, bias=0.1, pool_first=False, fc=4096):
    """conv1 … fc8 on net.data. `bias` initializes the biases that AlexNet's paper sets to 1;
    pool_first swaps pooling and normalisation, as in CaffeNet."""
    def shrink(index, bottom):
        def pool(x):
            net['pool%d' % index] = L.Pooling(x, pool=P.Pooling.MAX, kernel_size=3, stride=2)
            return net['pool%d' % index]

        def norm(x):
            net['norm%d' % index] = L.LRN(x, local_size=5, alpha=1e-4, beta=0.75)
            return net['norm%d' % index]
        return norm(pool(bottom)) if pool_first else pool(norm(bottom))

    def relu(index, bottom):
        net['relu%d' % index] = L.ReLU(bottom, in_place=True)
        return net['relu%d' % index]

    net.conv1 = L.Convolution(net.data, num_output=96, kernel_size=11, stride=4, **filled(0.01, 0))
    x = shrink(1, relu(1, net.conv1))
    net.conv2 = L.Convolution(x, num_output=256, pad=2, kernel_size=5, group=2,
                              **filled(0.01, bias))
    x = shrink(2, relu(2, net.conv2))
    net.conv3 = L.Convolution(x, num_output=384, pad=1, kernel_size=3, **filled(0.01, 0))
    net.conv4 = L.Convolution(relu(3, net.conv3), num_output=384, pad=1, kernel_size=3, group=2,
                              **filled(0.01, bias))
    net.conv5 = L.Convolution(relu(4, net.conv4), num_output=256, pad=1, kernel_size=3, group=2,
                              **filled(0.01, bias))
    net.pool5 = L.Pooling(relu(5, net.conv5), pool=P.Pooling.MAX, kernel_size=3, stride=2)
    x = net.pool5
    for index in (6, 7):
        fully = 'fc%d' % index
        net[fully] = L.InnerProduct(x, num_output=fc, **filled(0.005, bias))
        net['drop%d' % index] = L.Dropout(relu(index, net[fully]), in_place=True, dropout_ratio=0.5)
        x = net['drop%d' % index]
    net.fc8 = L.InnerProduct(x, num_output=classes, **filled(0.01, 0))


def deploy(batch_size=10, size=SIZE, classes=1000, data_type=None, name='AlexNet', **body):
    """The net for deployment: images in, probabilities out."""
    net = NetSpec()
    image_input(net, batch_size, size)
    add_body(net, classes, **body)
    net.prob = L.Softmax(net.fc8)
    return finish(net, name, data_type)


def train_val(data=None, classes=1000, data_type=None, name='AlexNet', **body):
    """The net of both phases. data: (size, batch size) for random images."""
    net = NetSpec()
    add_data(net, SIZE, (256, 50), data,
             mean_file='data/ilsvrc12/imagenet_mean.binaryproto')
    add_body(net, classes, **body)
    add_loss(net, net.fc8)
    return finish(net, name, data_type)


if __name__ == '__main__':
    write(HERE, deploy=deploy(), train_val=train_val())
