"""The nets of this example: a mixture of experts between shared first and last layers.

The dense net has one expert without a gate, with as many more channels as make the multiplications
for an image those of the mixture.
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
# How the use of the experts is made even.
BALANCES = {
    'loss': dict(load_balance_loss_weight=0.5, z_loss_weight=0.001),
    'usage': dict(usage_loss_weight=4),
    'bias': dict(balance_rate=0.01),
    'none': {}}


def learned(kind, bottom, weight_filler=dict(type='msra'), **param):
    return kind(bottom, weight_filler=weight_filler,
                param=[dict(lr_mult=1, decay_mult=1), dict(lr_mult=2, decay_mult=0)], **param)


def convolution(net, name, bottom, outputs, kernel):
    """Convolution, ReLU and pooling to half of the size."""
    net[name] = learned(L.Convolution, bottom, num_output=outputs, kernel_size=kernel,
                        pad=kernel // 2)
    net['relu_' + name] = L.ReLU(net[name], in_place=True)
    net['pool_' + name] = L.Pooling(net['relu_' + name], pool=P.Pooling.MAX, kernel_size=2, stride=2)
    return net['pool_' + name]


class Mixture:
    """The sizes of a net. `select` is 0 for the dense net. `balance` is a key of BALANCES; `capacity`
    limits the items of an expert, relative to even use; with 0 nothing does. With `super_classes` the
    gate also learns to tell two groups of classes apart."""

    def __init__(self, data, experts=8, select=2, channels=16, balance='loss', capacity=0,
                 super_classes=False):
        self.data, self.experts, self.select, self.channels = data, experts, select, channels
        self.balance, self.capacity, self.super_classes = balance, capacity, super_classes
        self.first = 16 if data == 'mnist' else 32
        self.kernel = 5

    def expert_products(self, channels):
        """Multiplications of an expert for an image: two convolutions and an inner product."""
        side = SHAPES[self.data][1] // 2
        window = self.kernel ** 2
        return (side ** 2 * window * self.first * channels
                + (side // 2) ** 2 * window * channels * 2 * channels
                + (side // 4) ** 2 * 2 * channels * 4 * channels)

    def dense(self):
        """The net without a gate that multiplies as often as this one."""
        wanted = self.select * self.expert_products(self.channels)
        channels = self.channels
        while self.expert_products(channels + 1) <= wanted:
            channels += 1
        return Mixture(self.data, 1, 0, channels)

    def add_expert(self, net, bottom):
        top = convolution(net, 'conv2', bottom, self.channels, self.kernel)
        top = convolution(net, 'conv3', top, 2 * self.channels, self.kernel)
        net.ip1 = learned(L.InnerProduct, top, num_output=4 * self.channels)
        return net.ip1

    def expert(self):
        net = caffe.NetSpec()
        net.data = L.Input()
        self.add_expert(net, net.data)
        return net

    def gating(self):
        """The probability of each expert from the averages of 4 x 4 regions."""
        net = caffe.NetSpec()
        net.data = L.Input()
        net.regions = L.Pooling(net.data, pool=P.Pooling.AVE, kernel_size=4, stride=4)
        net.hidden = learned(L.InnerProduct, net.regions, num_output=32)
        net.relu = L.ReLU(net.hidden, in_place=True)
        # So large that different images begin with different experts, and all experts with some images.
        net.score = learned(L.InnerProduct, net.relu, num_output=self.experts,
                            weight_filler=dict(type='gaussian', std=0.2))
        # Of deviation 1 / experts: experts of almost equal probability are both tried.
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
        bottom = convolution(net, 'conv1', net.data, self.first, self.kernel)
        if self.select:
            gate_top = ['gate', 'super'] if self.super_classes else ['gate']
            tops = L.MOE(bottom, name='moe', gating=self.gating(), expert=self.expert(),
                         experts=self.experts, select=self.select, gate_top=gate_top,
                         ntop=3 + len(gate_top), capacity_factor=self.capacity,
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
