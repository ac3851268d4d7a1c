"""The trained SqueezeNet gives the classes that it gives elsewhere."""
import importlib.util
import os

from google.protobuf import text_format
import pytest

import caffe
from caffe.proto import caffe_pb2

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.environ.get('CAFFE_TEST_DATA', '')

pytestmark = pytest.mark.skipif(
    not all(os.path.isdir(os.path.join(DATA, name)) for name in ('squeezenet', 'imagenet-sample')),
    reason='CAFFE_TEST_DATA names no folder with squeezenet/ and imagenet-sample/')

# The classes of the first 50 images by the dnn module of OpenCV 4.12. No second best is near.
CLASSES = [0, 2, 842, 5, 7, 11, 12, 14, 16, 18, 20, 22, 24, 38, 28, 30, 32, 34, 36, 38, 40, 42, 44,
           46, 48, 49, 54, 54, 825, 20, 52, 62, 32, 60, 68, 321, 303, 73, 76, 78, 80, 82, 84, 86,
           88, 90, 92, 94, 96, 98]


def load(*path):
    spec = importlib.util.spec_from_file_location('_'.join(path)[:-3], os.path.join(ROOT, *path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def paths(evaluate, count):
    return [path for path, _ in evaluate.read_list(DATA, count)]


@pytest.mark.parametrize('data_type', ['float', 'double', 'half', 'bfloat16'])
def test_classes_are_those_of_opencv(data_type):
    caffe.set_device('cpu')
    evaluate = load('examples', 'squeezenet', 'evaluate.py')
    count = 50 if data_type == 'float' else 20
    net = evaluate.make_net(DATA, 10, data_type)
    classes, _ = evaluate.classify(net, paths(evaluate, count))
    wrong = sum(found != expected for found, expected in zip(classes, CLASSES))
    assert len(classes) == count
    assert wrong <= {'half': 1, 'bfloat16': 2}.get(data_type, 0), classes


def test_a_last_batch_may_be_short():
    caffe.set_device('cpu')
    evaluate = load('examples', 'squeezenet', 'evaluate.py')
    classes, _ = evaluate.classify(evaluate.make_net(DATA, 4), paths(evaluate, 6))
    assert classes == CLASSES[:6]


def test_the_generator_knows_the_early_names():
    """The net of the trained weights, but for fillers."""
    with open(os.path.join(DATA, 'squeezenet', 'deploy.prototxt')) as file:
        published = text_format.Parse(file.read(), caffe_pb2.NetParameter())
    generated = load('models', 'squeezenet', 'generate.py').deploy(batch_size=1, early=True)
    assert generated.layer[0].type == 'Input'
    assert generated.layer[0].input_param.shape[0].dim == published.input_dim
    assert generated.name == published.name
    for layer in list(generated.layer) + list(published.layer):
        if layer.type == 'Convolution':
            layer.convolution_param.ClearField('weight_filler')
    assert list(generated.layer[1:]) == list(published.layer)
