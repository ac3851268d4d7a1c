"""What the scripts of this folder share: the nets of models/ with the databases of a folder."""
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.append(os.path.join(ROOT, 'python'))  # unless it is installed

import caffe  # noqa: E402  (first: its error says how to install missing packages)
from google.protobuf import text_format  # noqa: E402

from caffe.proto import caffe_pb2  # noqa: E402

# The mixture of the thesis is another function of the same generator.
THESIS = 'caffenet_moe_thesis'
MODELS = ('alexnet', 'caffenet', 'caffenet_moe', THESIS, 'googlenet', 'mobilenet_v1', 'resnet50',
          'squeezenet', 'vgg16')
TYPES = {'float': None, 'half': caffe_pb2.CAFFE_HALF, 'bfloat16': caffe_pb2.CAFFE_BFLOAT16}


def generator(model):
    spec = importlib.util.spec_from_file_location(
        model + '_generate', os.path.join(ROOT, 'models', model, 'generate.py'))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def train_val(model, folder, data_type=None, train_batch=None, batch=None, test='val'):
    """The net of both phases on the databases of a folder. train_batch, batch: images at a time in
    phases TRAIN and TEST, if not those of the model. test: 'val' or 'train', the images of phase
    TEST."""
    if model == THESIS:
        module = generator('caffenet_moe')
        net = module.thesis_train_val(data_type=data_type, batches=(
            train_batch or module.TRAIN_BATCH, batch or module.TEST_BATCH))
    else:
        net = generator(model).train_val(data_type=data_type)
    with_data(net, folder, test=test)
    for layer in net.layer:
        if layer.type == 'Data':
            training = caffe_pb2.TRAIN in [rule.phase for rule in layer.include]
            layer.data_param.batch_size = (
                train_batch if training else batch) or layer.data_param.batch_size
    return net


def read_net(path):
    with open(path) as file:
        return text_format.Parse(file.read(), caffe_pb2.NetParameter())


def with_data(net, folder, train='train', test='val', batch=None):
    """Lets the data layers of both phases read the databases of a folder."""
    for layer in net.layer:
        if layer.type != 'Data':
            continue
        phases = [rule.phase for rule in layer.include]
        name = train if caffe_pb2.TRAIN in phases else test
        layer.data_param.source = os.path.join(folder, 'ilsvrc12_%s_lmdb' % name)
        if not os.path.exists(layer.data_param.source):
            sys.exit('%s is missing; create_imagenet.py makes it' % layer.data_param.source)
        if batch:
            layer.data_param.batch_size = batch
        if layer.transform_param.HasField('mean_file'):
            layer.transform_param.mean_file = os.path.join(folder, 'imagenet_mean.binaryproto')
    return net


def accuracy(net, batches):
    """The outputs of the net, averaged over batches."""
    total = {}
    for _ in range(batches):
        for name, value in net.forward().items():
            total[name] = total.get(name, 0) + float(value.sum())
    return {name: value / batches for name, value in total.items()}


def accuracy_line(net, batches):
    found = accuracy(net, batches)
    images = batches * net.blobs['data'].shape[0]
    return 'top-1 %.2f %%, top-5 %.2f %%, loss %.4f, on %d images' % (
        100 * found['accuracy/top1'], 100 * found['accuracy/top5'], found['loss'], images)
