"""The nets of this example: a mixture of experts between shared first and last layers.

The dense net has one expert without a gate, with as many more channels as make the multiplications
for an image those of the mixture with its gate.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.append(os.path.join(ROOT, 'python'))  # unless it is installed

import caffe  # noqa: E402,F401  (first: its error says how to install missing packages)
from caffe import layers as L, params as P  # noqa: E402

CLASSES = {
    'mnist': [str(digit) for digit in range(10)],
    'cifar10': ['airplane', 'automobile', 'bird', 'cat', 'deer', 'dog', 'frog', 'horse', 'ship',
                'truck']}
SHAPES = {'mnist': (1, 28, 28), 'cifar10': (3, 32, 32)}
# Classes of the first of two super-classes: digits below 5, and vehicles.
FIRST_SUPER_CLASS = {'mnist': (0, 1, 2, 3, 4), 'cifar10': (0, 1, 8, 9)}
# Channels of the convolutions that all images pass, and those of an expert as multiples of
# `channels`. An expert learns from a quarter of the images. So on CIFAR-10 it gets two learned
# convolutions, and learns one.
SHARED = {'mnist': (16,), 'cifar10': (32, 32)}
MULTIPLES = {'mnist': (1, 2), 'cifar10': (1,)}
# Defaults of Mixture.
CHANNELS = {'mnist': 16, 'cifar10': 32}
BALANCE = {'mnist': 'loss', 'cifar10': 'both'}
KERNEL = 5  # of convolutions
REGION = 4  # of which the gate reads an average
HIDDEN = 32  # outputs of the first layer of the gate
# How the use of the experts is made even.
BALANCES = {
    'loss': dict(load_balance_loss_weight=0.5, z_loss_weight=0.001),
    'usage': dict(usage_loss_weight=4),
    'bias': dict(balance_rate=0.01),
    'both': dict(balance_rate=0.001, load_balance_loss_weight=0.05, z_loss_weight=0.001),
    'none': {}}


def learned(kind, bottom, weight_filler=dict(type='msra'), **param):
    return kind(bottom, weight_filler=weight_filler,
                param=[dict(lr_mult=1, decay_mult=1), dict(lr_mult=2, decay_mult=0)], **param)


def convolution(net, name, bottom, outputs):
    """Convolution, ReLU and pooling to half of the size."""
    net[name] = learned(L.Convolution, bottom, num_output=outputs, kernel_size=KERNEL,
                        pad=KERNEL // 2)
    net['relu_' + name] = L.ReLU(net[name], in_place=True)
    net['pool_' + name] = L.Pooling(net['relu_' + name], pool=P.Pooling.MAX, kernel_size=2, stride=2)
    return net['pool_' + name]


class Mixture:
    """The sizes of a net. `select` is 0 for the dense net. `channels` are those of an expert's first
    convolution. `balance` is a key of BALANCES; `capacity` limits the items of an expert, relative to
    even use; with 0 nothing does. If `select` is 1 the output of an expert is multiplied by its
    probability, because a normalized weight would be 1 and teach the gate nothing. With `super_classes` the gate also learns to tell two groups of
    classes apart."""

    def __init__(self, data, experts=8, select=2, channels=None, balance=None, capacity=0,
                 super_classes=False):
        self.data, self.experts, self.select = data, experts, select
        self.channels = channels or CHANNELS[data]
        self.balance = balance or BALANCE[data]
        self.capacity, self.super_classes = capacity, super_classes
        # The edge of the images that the experts and the gate read.
        self.side = SHAPES[data][1] // 2 ** len(SHARED[data])

    def features(self, channels):
        """The outputs of an expert."""
        return 4 * channels if self.data == 'mnist' else 64

    def expert_products(self, channels):
        """Multiplications of an expert for an image: convolutions and an inner product."""
        side, inputs, products = self.side, SHARED[self.data][-1], 0
        for multiple in MULTIPLES[self.data]:
            products += side ** 2 * KERNEL ** 2 * inputs * multiple * channels
            side, inputs = -(-side // 2), multiple * channels  # pooling rounds up
        return products + side ** 2 * inputs * self.features(channels)

    def products(self):
        """Multiplications of the gate and of the selected experts for an image."""
        regions = -(-self.side // REGION)
        gate = (regions ** 2 * SHARED[self.data][-1] + self.experts) * HIDDEN
        return gate + self.select * self.expert_products(self.channels)

    def dense(self):
        """The net without a gate that multiplies as often as this one."""
        channels = self.channels
        while self.expert_products(channels + 1) <= self.products():
            channels += 1
        return Mixture(self.data, 1, 0, channels)

    def add_expert(self, net, bottom):
        for number, multiple in enumerate(MULTIPLES[self.data], len(SHARED[self.data]) + 1):
            bottom = convolution(net, 'conv%d' % number, bottom, multiple * self.channels)
        net.ip1 = learned(L.InnerProduct, bottom, num_output=self.features(self.channels))
        return net.ip1

    def expert(self):
        net = caffe.NetSpec()
        net.data = L.Input()
        self.add_expert(net, net.data)
        return net

    def gating(self):
        """The probability of each expert from the averages of regions."""
        net = caffe.NetSpec()
        net.data = L.Input()
        net.regions = L.Pooling(net.data, pool=P.Pooling.AVE, kernel_size=REGION,
                                stride=REGION)
        net.hidden = learned(L.InnerProduct, net.regions, num_output=HIDDEN)
        net.relu = L.ReLU(net.hidden, in_place=True)
        # So large that different images begin with different experts, and all experts with some
        # images.
        net.score = learned(L.InnerProduct, net.relu, num_output=self.experts,
                            weight_filler=dict(type='gaussian', std=0.2))
        # Its deviation is 1 / experts: experts of almost equal probability are both tried.
        net.noise = L.Noise(net.score, sigma=1 / self.experts, additive=True, per_element=True)
        net.gate = L.Softmax(net.noise)
        if self.super_classes:
            net.super = learned(L.InnerProduct, net.relu, num_output=2)
        return net

    def make(self, batch, loss):
        """The net with Inputs: for training with a loss, otherwise with the scores and the gate."""
        net = caffe.NetSpec()
        net.data = L.Input(shape=dict(dim=[batch, *SHAPES[self.data]]))
        if loss:
            net.label = L.Input(shape=dict(dim=[batch]))
        bottom = net.data
        for number, outputs in enumerate(SHARED[self.data], 1):
            bottom = convolution(net, 'conv%d' % number, bottom, outputs)
        if self.select:
            gate_top = ['gate', 'super'] if self.super_classes else ['gate']
            tops = L.MOE(bottom, name='moe', gating=self.gating(), expert=self.expert(),
                         experts=self.experts, select=self.select, gate_top=gate_top,
                         ntop=3 + len(gate_top), capacity_factor=self.capacity,
                         normalize_weights=self.select > 1,
                         **BALANCES[self.balance])
            net.moe, net.observed, net.expected, net.gate = tops[:4]
            unused = [net.observed, net.expected] + ([net.gate] if loss else [])
            if self.super_classes:
                net.super = tops[4]
                if loss:
                    net.super_label = L.Input(shape=dict(dim=[batch]))
                    net.super_loss = L.SoftmaxWithLoss(net.super, net.super_label, loss_weight=0.3)
            net.unused = L.Silence(*unused, ntop=0)
        else:
            net.moe = self.add_expert(net, bottom)
        net.relu_moe = L.ReLU(net.moe, in_place=True)
        net.score = learned(L.InnerProduct, net.relu_moe, num_output=10)
        if loss:
            net.loss = L.SoftmaxWithLoss(net.score, net.label)
        proto = net.to_proto()
        proto.name = self.data + ('_moe' if self.select else '_dense')
        return proto
