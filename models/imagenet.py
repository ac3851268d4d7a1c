"""Common parts of the ImageNet models: data, losses, types and files."""
import argparse
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, 'python'))

from caffe import layers as L, params as P, NetSpec  # noqa: E402,F401
from caffe.proto import caffe_pb2  # noqa: E402

TRAIN, TEST = 0, 1
TYPES = {'float': 'CAFFE_FLOAT', 'half': 'CAFFE_HALF', 'bfloat16': 'CAFFE_BFLOAT16',
         'int16': 'CAFFE_INT16_QUANTIZED', 'int8': 'CAFFE_INT8_QUANTIZED'}
INTEGERS = caffe_pb2.CAFFE_INT8_QUANTIZED, caffe_pb2.CAFFE_INT16_QUANTIZED
MEAN = (104, 117, 123)  # of blue, green and red
# The bias learns at twice the rate of the weights and does not decay.
LEARNED = [dict(lr_mult=1, decay_mult=1), dict(lr_mult=2, decay_mult=0)]


def image_input(net, batch_size, size):
    """net.data for images that the caller writes."""
    net.data = L.Input(shape=dict(dim=[batch_size, 3, size, size]))


def records(net, size, batches, source='examples/imagenet', **transform):
    """net.data and net.label of both phases from LMDBs, crops of `size`, mirrored in training.
    batches: of training, of testing. transform: further fields of transform_param."""
    tops = []
    for phase, batch_size in zip((TRAIN, TEST), batches):
        name = 'train' if phase == TRAIN else 'val'
        tops.append(L.Data(name='data', include=dict(phase=phase), ntop=2,
                           transform_param=dict(mirror=phase == TRAIN, crop_size=size, **transform),
                           source='%s/ilsvrc12_%s_lmdb' % (source, name), batch_size=batch_size,
                           backend=P.Data.LMDB))
    net.data = [top[0] for top in tops]
    net.label = [top[1] for top in tops]


def synthetic(net, size, batch_size):
    """net.data and net.label of random numbers, to test that a net trains."""
    data, label = L.DummyData(
        name='data', ntop=2, shape=[dict(dim=[batch_size, 3, size, size]), dict(dim=[batch_size])],
        data_filler=[dict(type='gaussian', std=50), dict(type='constant', value=1)])
    net.data, net.label = data, label


def add_data(net, size, batches, data, **transform):
    """Records, or synthetic images if `data` is (size, batch size)."""
    if data is None:
        records(net, size, batches, **transform)
    else:
        synthetic(net, *data)


def add_loss(net, scores):
    """Loss, and top-1 and top-5 accuracy in testing."""
    net['accuracy/top1'] = L.Accuracy(scores, net.label, include=dict(phase=TEST))
    net['accuracy/top5'] = L.Accuracy(scores, net.label, include=dict(phase=TEST), top_k=5)
    net.loss = L.SoftmaxWithLoss(scores, net.label)


def finish(net, name, data_type=None):
    """The net as a message. data_type: of all layers but data, losses and accuracies; an integer type
    also leaves out layers that compute in float only. The nets within a mixture of experts get it as
    their data_type; their gate, and what the mixture returns, are float."""
    proto = net.to_proto()
    proto.name = name
    if data_type is None:
        return proto
    integers = data_type in INTEGERS
    if integers:
        proto.data_type = data_type
    float_layers = ('Accuracy', 'Data', 'DummyData', 'Input', 'SoftmaxWithLoss')
    for layer in proto.layer:
        if layer.type == 'MOE':
            for nested in (layer.moe_param.gating_net, *layer.moe_param.expert_net):
                nested.data_type = data_type
            layer.top_data_type = caffe_pb2.CAFFE_FLOAT
        elif not integers and layer.type not in float_layers:
            layer.bottom_data_type = layer.compute_data_type = layer.top_data_type = data_type
    return proto


def write(folder, **nets):
    """Writes <name>.prototxt for each message."""
    for name, proto in nets.items():
        with open(os.path.join(folder, name + '.prototxt'), 'w') as file:
            file.write('# Written by generate.py.\n%s' % proto)


def typed_nets(deploy, description, **variants):
    """Writes the nets that the command line names; returns whether it names any. variants: other
    functions like `deploy`, each for an option of its name."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--types', nargs='*', choices=TYPES, default=[], metavar='TYPE',
                        help='of %s' % ', '.join(TYPES))
    parser.add_argument('--batches', nargs='*', type=int, default=[], metavar='N')
    for variant in variants:
        parser.add_argument('--' + variant, action='store_true', help='nets of this variant')
    parser.add_argument('--output', default='.', metavar='FOLDER')
    arguments = parser.parse_args()
    if bool(arguments.types) != bool(arguments.batches):
        parser.error('--types and --batches go together')
    for variant, function in variants.items():
        if getattr(arguments, variant):
            deploy = function
            if not arguments.types:
                parser.error('--%s is for --types and --batches' % variant)
    for name in arguments.types:
        number = caffe_pb2.DataTypeProto.Value(TYPES[name])
        for batch in arguments.batches:
            net = deploy(batch_size=batch, data_type=None if name == 'float' else number)
            write(arguments.output, **{'deploy_%s_%d' % (name, batch): net})
    return bool(arguments.types)
