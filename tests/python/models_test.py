"""Each model's prototxt is what its generator writes, and the nets run forward and backward."""
import importlib.util
import os

from google.protobuf import text_format
import numpy as np
import pytest

import caffe
from caffe.proto import caffe_pb2

from nets import write

MODELS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
                      'models')


def generator(model):
    spec = importlib.util.spec_from_file_location(
        model + '_generate', os.path.join(MODELS, model, 'generate.py'))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(model, name, message=caffe_pb2.NetParameter):
    with open(os.path.join(MODELS, model, name)) as file:
        return text_format.Parse(file.read(), message())


def test_lenet():
    lenet = generator('lenet')
    assert lenet.train_test() == read('lenet', 'lenet_train_test.prototxt')
    assert lenet.deploy() == read('lenet', 'lenet.prototxt')
    solver = read('lenet', 'lenet_solver.prototxt', caffe_pb2.SolverParameter)
    assert os.path.exists(os.path.join(os.path.dirname(MODELS), solver.net))


def test_lenet_in_half_keeps_loss_and_data_in_float():
    half = caffe_pb2.CAFFE_HALF
    typed = {layer.name for layer in generator('lenet').train_test(data_type=half).layer
             if layer.compute_data_type == half}
    assert typed == {'conv1', 'pool1', 'conv2', 'pool2', 'ip1', 'relu1', 'ip2'}


# Numbers to learn, without the running sums of BatchNorm.
PARAMETERS = {'alexnet': 60965224, 'caffenet': 60965224, 'googlenet': 6998552,
              'squeezenet': 1248424, 'resnet50': 25557096, 'vgg16': 138357544,
              'mobilenet_v1': 4231976}


@pytest.mark.parametrize('model', PARAMETERS)
def test_prototxts_are_what_the_generators_write(model):
    generate = generator(model)
    assert generate.deploy() == read(model, 'deploy.prototxt')
    assert generate.train_val() == read(model, 'train_val.prototxt')


@pytest.mark.parametrize('model', PARAMETERS)
def test_deploy_at_full_size(tmp_path, model):
    """With weights of 0, which need no time to fill: every class is as likely."""
    proto = generator(model).deploy(batch_size=1)
    for layer in proto.layer:
        for parameter in (layer.convolution_param, layer.inner_product_param):
            if parameter.HasField('weight_filler'):
                parameter.weight_filler.CopyFrom(caffe_pb2.FillerParameter())
                parameter.bias_filler.CopyFrom(caffe_pb2.FillerParameter())
    net = caffe.Net(write(tmp_path, proto), caffe.TEST)
    types = dict(zip(net._layer_names, (layer.type for layer in net.layers)))
    assert sum(blob.count for name, blobs in net.params.items() if types[name] != 'BatchNorm'
               for blob in blobs) == PARAMETERS[model]
    probabilities = net.forward()['prob']
    assert probabilities.shape[:2] == (1, 1000) and probabilities.size == 1000
    np.testing.assert_allclose(probabilities, 1e-3, rtol=1e-5)


# Edge and number of images that the net can do with, and what makes it smaller.
SMALL = {'alexnet': (67, 2, dict(fc=64)), 'caffenet': (67, 2, dict(fc=64)),
         'googlenet': (224, 1, {}), 'squeezenet': (47, 2, {}), 'resnet50': (209, 1, {}),
         'vgg16': (32, 2, dict(fc=64)), 'mobilenet_v1': (64, 2, {})}


@pytest.mark.parametrize('model,data_type', [(model, None) for model in SMALL] +
                         [('squeezenet', 'half'), ('mobilenet_v1', 'half')])
def test_train_val_forward_and_backward(tmp_path, model, data_type):
    size, batch_size, options = SMALL[model]
    if data_type:
        options = dict(options, data_type=caffe_pb2.CAFFE_HALF)
    caffe.set_random_seed(1)
    proto = generator(model).train_val(data=(size, batch_size), classes=10, **options)
    net = caffe.Net(write(tmp_path, proto), caffe.TRAIN)
    losses = net.forward()
    net.backward()
    assert len(losses) == (3 if model == 'googlenet' else 1)
    assert all(0 < loss < 100 for loss in losses.values()), losses
    types = dict(zip(net._layer_names, (layer.type for layer in net.layers)))
    for name, blobs in net.params.items():
        if types[name] == 'BatchNorm':
            continue
        gradients = [np.abs(blob.diff).max() for blob in blobs]
        assert np.isfinite(gradients).all(), name
        # Every layer with weights hears from the loss.
        assert gradients[0] > 0, name
