"""Each model's prototxt is what its generator writes."""
import os
import sys

from google.protobuf import text_format

from caffe.proto import caffe_pb2

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, 'models', 'lenet')
sys.path.insert(0, FOLDER)
import generate  # noqa: E402


def read(name, message):
    with open(os.path.join(FOLDER, name)) as file:
        return text_format.Parse(file.read(), message)


def test_lenet():
    assert generate.train_test() == read('lenet_train_test.prototxt', caffe_pb2.NetParameter())
    assert generate.deploy() == read('lenet.prototxt', caffe_pb2.NetParameter())
    solver = read('lenet_solver.prototxt', caffe_pb2.SolverParameter())
    assert os.path.exists(os.path.join(ROOT, solver.net))


def test_lenet_in_half_keeps_loss_and_data_in_float():
    half = caffe_pb2.CAFFE_HALF
    typed = {layer.name for layer in generate.train_test(data_type=half).layer
             if layer.compute_data_type == half}
    assert typed == {'conv1', 'pool1', 'conv2', 'pool2', 'ip1', 'relu1', 'ip2'}
