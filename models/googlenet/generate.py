#!/usr/bin/env python3
"""GoogLeNet as a NetSpec script: writes deploy.prototxt and train_val.prototxt into its folder."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from imagenet import (L, LEARNED, MEAN, P, NetSpec, TEST, add_data, finish,  # noqa: E402
                      image_input, write)

SIZE = 224
# Outputs of each inception module: 1x1, before 3x3, 3x3, before 5x5, 5x5, after pooling (table 1 of
# the paper).
MODULES = {
    '3a': (64, 96, 128, 16, 32, 32), '3b': (128, 128, 192, 32, 96, 64),
    '4a': (192, 96, 208, 16, 48, 64), '4b': (160, 112, 224, 24, 64, 64),
    '4c': (128, 128, 256, 24, 64, 64), '4d': (112, 144, 288, 32, 64, 64),
    '4e': (256, 160, 320, 32, 128, 128), '5a': (256, 160, 320, 32, 128, 128),
    '5b': (384, 192, 384, 48, 128, 128),
}


def filled(bias=0.2):
    return dict(param=LEARNED, weight_filler=dict(type='xavier'),
                bias_filler=dict(type='constant', value=bias))


def conv(net, prefix, name, bottom, num_output, **window):
    """<prefix>/<name> and its <prefix>/relu_<name>, without the stride in the name."""
    full = '%s/%s' % (prefix, name)
    net[full] = L.Convolution(bottom, num_output=num_output, **window, **filled())
    relu = '%s/relu_%s' % (prefix, name.split('_s')[0])
    net[relu] = L.ReLU(net[full], in_place=True)
    return net[relu]


def inception(net, module, bottom):
    one, before3, three, before5, five, pooled = MODULES[module]
    prefix = 'inception_' + module
    pool = prefix + '/pool'
    branches = [conv(net, prefix, '1x1', bottom, one, kernel_size=1)]
    x = conv(net, prefix, '3x3_reduce', bottom, before3, kernel_size=1)
    branches.append(conv(net, prefix, '3x3', x, three, kernel_size=3, pad=1))
    x = conv(net, prefix, '5x5_reduce', bottom, before5, kernel_size=1)
    branches.append(conv(net, prefix, '5x5', x, five, kernel_size=5, pad=2))
    net[pool] = L.Pooling(bottom, pool=P.Pooling.MAX, kernel_size=3, stride=1, pad=1)
    branches.append(conv(net, prefix, 'pool_proj', net[pool], pooled, kernel_size=1))
    net[prefix + '/output'] = L.Concat(*branches)
    return net[prefix + '/output']


def max_pool(net, name, bottom):
    net[name] = L.Pooling(bottom, pool=P.Pooling.MAX, kernel_size=3, stride=2)
    return net[name]


def head(net, index, scores, weight):
    """Loss and accuracies of classifier `index`."""
    prefix = 'loss%d/' % index
    own = prefix + 'loss%d' % index
    net[own] = L.SoftmaxWithLoss(scores, net.label, loss_weight=weight,
                                 name=prefix + 'loss' if weight < 1 else own)
    net[prefix + 'top-1'] = L.Accuracy(scores, net.label, include=dict(phase=TEST))
    net[prefix + 'top-5'] = L.Accuracy(scores, net.label, include=dict(phase=TEST), top_k=5)


def side(net, index, bottom, classes):
    """A classifier in the middle of the net, which helps to train it."""
    prefix = 'loss%d/' % index
    net[prefix + 'ave_pool'] = L.Pooling(bottom, pool=P.Pooling.AVE, kernel_size=5, stride=3)
    x = conv(net, prefix[:-1], 'conv', net[prefix + 'ave_pool'], 128, kernel_size=1)
    net[prefix + 'fc'] = L.InnerProduct(x, num_output=1024, **filled())
    net[prefix + 'relu_fc'] = L.ReLU(net[prefix + 'fc'], in_place=True)
    net[prefix + 'drop_fc'] = L.Dropout(net[prefix + 'relu_fc'], in_place=True, dropout_ratio=0.7)
    net[prefix + 'classifier'] = L.InnerProduct(net[prefix + 'drop_fc'], num_output=classes,
                                                **filled(0))
    head(net, index, net[prefix + 'classifier'], 0.3)


def add_body(net, classes, sides):
    """conv1 … loss3/classifier on net.data; with or without the additional classifiers."""
    x = conv(net, 'conv1', '7x7_s2', net.data, 64, kernel_size=7, stride=2, pad=3)
    x = max_pool(net, 'pool1/3x3_s2', x)
    net['pool1/norm1'] = L.LRN(x, local_size=5, alpha=1e-4, beta=0.75)
    x = conv(net, 'conv2', '3x3_reduce', net['pool1/norm1'], 64, kernel_size=1)
    x = conv(net, 'conv2', '3x3', x, 192, kernel_size=3, pad=1)
    net['conv2/norm2'] = L.LRN(x, local_size=5, alpha=1e-4, beta=0.75)
    x = max_pool(net, 'pool2/3x3_s2', net['conv2/norm2'])
    for module in MODULES:
        x = inception(net, module, x)
        if module in ('3b', '4e'):
            x = max_pool(net, 'pool3/3x3_s2' if module == '3b' else 'pool4/3x3_s2', x)
        elif sides and module in ('4a', '4d'):
            side(net, 1 if module == '4a' else 2, x, classes)
    net['pool5/7x7_s1'] = L.Pooling(x, pool=P.Pooling.AVE, kernel_size=7, stride=1)
    net['pool5/drop_7x7_s1'] = L.Dropout(net['pool5/7x7_s1'], in_place=True, dropout_ratio=0.4)
    net['loss3/classifier'] = L.InnerProduct(net['pool5/drop_7x7_s1'], num_output=classes,
                                             **filled(0))


def deploy(batch_size=10, size=SIZE, classes=1000, data_type=None):
    """The net for deployment: images in, probabilities out."""
    net = NetSpec()
    image_input(net, batch_size, size)
    add_body(net, classes, sides=False)
    net.prob = L.Softmax(net['loss3/classifier'])
    return finish(net, 'GoogLeNet', data_type)


def train_val(data=None, classes=1000, data_type=None):
    """The net of both phases. data: (size, batch size) for random images."""
    net = NetSpec()
    add_data(net, SIZE, (32, 50), data, mean_value=MEAN)
    add_body(net, classes, sides=True)
    head(net, 3, net['loss3/classifier'], 1)
    return finish(net, 'GoogLeNet', data_type)


if __name__ == '__main__':
    write(HERE, deploy=deploy(), train_val=train_val())
