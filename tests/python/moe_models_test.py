"""models/lenet_moe and models/caffenet_moe: their files, types and parameters, and that they train."""
import os
import subprocess
import sys

import numpy as np
import pytest

import caffe
from caffe.proto import caffe_pb2

from models_test import MODELS, generator, read

INT8 = caffe_pb2.CAFFE_INT8_QUANTIZED
FILES = [('lenet_moe', 'deploy', 'lenet_moe'), ('lenet_moe', 'train_test', 'lenet_moe_train_test'),
         ('caffenet_moe', 'deploy', 'deploy'), ('caffenet_moe', 'train_val', 'train_val'),
         ('caffenet_moe', 'thesis_deploy', 'thesis_deploy'),
         ('caffenet_moe', 'thesis_train_val', 'thesis_train_val')]


@pytest.mark.parametrize('model,function,file', FILES)
def test_prototxts_are_what_the_generators_write(model, function, file):
    assert getattr(generator(model), function)() == read(model, file + '.prototxt')


@pytest.mark.parametrize('model,file,net', [
    ('lenet_moe', 'lenet_moe_solver', 'lenet_moe_train_test'),
    ('caffenet_moe', 'solver', 'train_val'), ('caffenet_moe', 'thesis_solver', 'thesis_train_val')])
def test_the_solver_names_the_net_of_both_phases(model, file, net):
    solver = read(model, file + '.prototxt', caffe_pb2.SolverParameter)
    assert solver.net == 'models/%s/%s.prototxt' % (model, net)
    assert os.path.exists(os.path.join(MODELS, model, net + '.prototxt'))


def moe_of(net):
    (layer,) = [layer for layer in net.layer if layer.type == 'MOE']
    return layer


@pytest.mark.parametrize('model', ['lenet_moe', 'caffenet_moe'])
def test_types_reach_the_nets_within(model):
    half = generator(model).deploy(data_type=caffe_pb2.CAFFE_HALF)
    experts = moe_of(half).moe_param
    assert experts.gating_net.data_type == experts.expert_net[0].data_type == caffe_pb2.CAFFE_HALF
    assert {layer.compute_data_type for layer in half.layer if layer.type not in ('Input', 'MOE')} == {
        caffe_pb2.CAFFE_HALF}
    # Layers that compute in float only are left to the net.
    codes = generator(model).deploy(data_type=INT8)
    assert codes.data_type == INT8 and moe_of(codes).moe_param.expert_net[0].data_type == INT8
    assert moe_of(codes).top_data_type == caffe_pb2.CAFFE_FLOAT
    assert not any(layer.HasField('compute_data_type') for layer in codes.layer)


def test_a_generator_writes_types_and_batches(tmp_path):
    program = os.path.join(MODELS, 'lenet_moe', 'generate.py')
    subprocess.run([sys.executable, program, '--types', 'float', 'int8', '--batches', '1', '7',
                    '--output', str(tmp_path)], check=True)
    assert sorted(os.listdir(tmp_path)) == [
        'deploy_%s_%d.prototxt' % (name, batch) for name in ('float', 'int8') for batch in (1, 7)]
    net = read('lenet_moe', str(tmp_path / 'deploy_int8_7.prototxt'))
    assert net.layer[0].input_param.shape[0].dim[0] == 7 and net.data_type == INT8
    run = subprocess.run([sys.executable, program, '--types', 'int8'], capture_output=True, text=True)
    assert run.returncode == 2 and '--types and --batches go together' in run.stderr


def constant(net):
    """Without random numbers, which take long for many parameters."""
    for layer in net.layer:
        for parameter in (layer.convolution_param, layer.inner_product_param):
            if parameter.HasField('weight_filler'):
                parameter.ClearField('weight_filler')
        if layer.type == 'MOE':
            for nested in (layer.moe_param.gating_net, *layer.moe_param.expert_net):
                constant(nested)
    return net


@pytest.mark.parametrize('model,parameters,blobs', [('caffenet_moe', 77456136, 8 + 16 * 12),
                                                    ('lenet_moe', None, 6 + 9 * 4)])
def test_deploy_at_full_size(model, parameters, blobs):
    net = caffe.Net(constant(generator(model).deploy(batch_size=2)), caffe.TEST)
    assert len(net.params['moe']) == blobs
    if parameters:
        assert sum(blob.count for each in net.params.values() for blob in each) == parameters
    net.blobs['data'].data[...] = 1
    probabilities = net.forward()['prob']
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)


def test_caffenet_moe_trains():
    caffe.set_random_seed(1)
    proto = generator('caffenet_moe').train_val(data=(67, 2), classes=10, fc6=16, fc7=32)
    net = caffe.Net(proto, caffe.TRAIN)
    losses = net.forward()
    net.backward()
    assert set(losses) == {'loss'} and 0 < losses['loss'] < 100
    for name in ('conv1', 'fc8'):
        assert np.abs(net.params[name][0].diff).max() > 0, name
    # A first convolution for the gating net and for each expert; the chosen ones hear from the
    # loss.
    moved = [np.abs(blob.diff).max() > 0 for blob in net.params['moe'][8::12]]
    assert len(moved) == 16 and 4 <= sum(moved) <= 8


SMALL = dict(data=(67, 6), classes=10, fc6=16, fc7=32)


def test_the_mixture_of_the_thesis_trains():
    module = generator('caffenet_moe')
    caffe.set_random_seed(1)
    net = caffe.Net(module.thesis_train_val(balance=120, **SMALL), caffe.TRAIN)
    losses = net.forward()
    net.backward()
    # Equation 1.11: the mean over the experts of (K / N - c / B)^2.
    use = np.array(net.blobs['use'].data[0], np.float64)
    counts = use * 6
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-4)
    assert counts.sum() == pytest.approx(4 * 6)
    equation = np.mean((4 / 16 - use) ** 2)
    (reg,) = [layer for layer in module.thesis_train_val(balance=120).layer if layer.name == 'reg']
    assert equation > 0
    assert reg.loss_weight[0] * losses['reg'] == pytest.approx(120 * equation, rel=1e-5)
    assert module.BALANCE == 120
    scaled = net.params['moe'][8]  # w(c), behind the blobs of conv2, fc1, fc2 and fc3
    assert scaled.shape == (16,) and np.abs(scaled.diff).max() > 0


def test_the_gate_of_the_thesis_is_random_in_both_phases():
    module = generator('caffenet_moe')
    images = np.random.default_rng(1).normal(0, 50, (6, 3, 67, 67))
    for random, deploy in ((True, module.thesis_deploy), (False, module.deploy)):
        net = caffe.Net(deploy(batch_size=6, size=67, classes=10, fc6=16, fc7=32), caffe.TEST)
        first, second = [np.array(net.forward(data=images)['prob']) for _ in range(2)]
        assert (first != second).any() == random


def test_nets_of_the_thesis_by_type_and_batch(tmp_path):
    program = os.path.join(MODELS, 'caffenet_moe', 'generate.py')
    subprocess.run([sys.executable, program, '--thesis', '--types', 'half', '--batches', '3',
                    '--output', str(tmp_path)], check=True)
    net = read('caffenet_moe', str(tmp_path / 'deploy_half_3.prototxt'))
    wide = [layer for layer in moe_of(net).moe_param.gating_net.layer if layer.name == 'wide']
    assert wide[0].dummy_data_param.shape[0].dim[0] == 3
    run = subprocess.run([sys.executable, program, '--thesis'], capture_output=True, text=True)
    assert run.returncode == 2 and '--thesis is for --types and --batches' in run.stderr


@pytest.mark.parametrize('data_type', ['CAFFE_HALF', 'CAFFE_INT16_QUANTIZED', 'CAFFE_INT8_QUANTIZED'])
def test_narrow_types_compute_what_float_computes(tmp_path, data_type):
    """Ranges are those of the float net on the same images."""
    lenet = generator('lenet_moe')
    caffe.set_random_seed(1)
    exact = caffe.Net(lenet.deploy(batch_size=8), caffe.TEST)
    images = np.random.default_rng(1).uniform(0, 1, (8, 1, 28, 28))
    exact.quant_mode = 'observe'
    wanted = np.array(exact.forward(data=images)['prob'])
    path = str(tmp_path / 'net.caffemodel')
    exact.save(path)
    number = caffe_pb2.DataTypeProto.Value(data_type)
    net = caffe.Net(lenet.deploy(batch_size=8, data_type=number), caffe.TEST, weights=path)
    found = net.forward(data=images)['prob']
    tolerance = {'CAFFE_HALF': 0.005, 'CAFFE_INT16_QUANTIZED': 0.005}.get(data_type, 0.08)
    np.testing.assert_allclose(np.asarray(found, np.float32), wanted, atol=tolerance)
