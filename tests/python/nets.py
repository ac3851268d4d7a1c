"""Nets and solver settings that the tests share."""
import numpy as np

from caffe import layers as L, NetSpec
from caffe.proto import caffe_pb2

TRAIN, TEST = 0, 1


def small_net(**types):
    """data (5, 2, 3, 4) -> conv (5, 11, 8, 9) -> ip (5, 13) -> loss; data also feeds nothing else."""
    net = NetSpec()
    net.data = L.Input(shape=dict(dim=[5, 2, 3, 4]))
    net.label = L.Input(shape=dict(dim=[5, 1, 1, 1]))
    filler = dict(type='gaussian', std=1)
    net.conv = L.Convolution(net.data, num_output=11, kernel_size=2, pad=3, weight_filler=filler,
                             bias_filler=dict(type='constant', value=2),
                             param=[dict(decay_mult=1), dict(decay_mult=0)], **types)
    net.ip = L.InnerProduct(net.conv, num_output=13, weight_filler=filler,
                            bias_filler=dict(type='constant', value=-3), **types)
    net.loss = L.SoftmaxWithLoss(net.ip, net.label)
    proto = net.to_proto()
    proto.name = 'small'
    proto.force_backward = True
    return proto


def write(folder, proto, name='net.prototxt'):
    """The path of a file with the message as text."""
    path = folder / name
    path.write_text(str(proto))
    return str(path)


def settings(folder, **more):
    return caffe_pb2.SolverParameter(**dict(dict(
        net_param=small_net(), test_iter=[3], test_interval=10, base_lr=0.01, momentum=0.9,
        weight_decay=0.0005, lr_policy='inv', gamma=0.0001, power=0.75, display=100, max_iter=20,
        snapshot_after_train=False, snapshot_prefix=str(folder / 'model'), random_seed=1), **more))


def feed(solver):
    for net in [solver.net, *solver.test_nets]:
        net.blobs['data'].data[...] = np.random.RandomState(0).randn(5, 2, 3, 4)
        net.blobs['label'].data[...] = np.arange(5).reshape(5, 1, 1, 1)
