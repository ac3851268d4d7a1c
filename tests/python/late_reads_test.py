"""Blobs that are read late, and inputs that layers change in place, as scripts use them."""
import numpy as np
import pytest
from google.protobuf import text_format

import caffe
from caffe.proto import caffe_pb2


def make(text, phase=caffe.TEST):
    return caffe.Net(text_format.Parse(text, caffe_pb2.NetParameter()), phase)


def input_text(name, *shape):
    dims = ' '.join('dim: %d' % extent for extent in shape)
    return 'layer { name: "%s" type: "Input" top: "%s" input_param { shape { %s } } } ' % (
        name, name, dims)


CHAIN = input_text('d', 1, 1, 4, 4) + '''
layer { name: "c" type: "Convolution" bottom: "d" top: "c"
  convolution_param { num_output: 1 kernel_size: 1 weight_filler { value: 2 } } }
layer { name: "r" type: "ReLU" bottom: "c" top: "r" }
layer { name: "p" type: "Pooling" bottom: "r" top: "p" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "ip" type: "InnerProduct" bottom: "p" top: "ip"
  inner_product_param { num_output: 1 weight_filler { value: 1 } } }'''


@pytest.mark.parametrize('held', [False, True])
def test_blobs_have_the_values_of_the_last_forward(held):
    net = make(CHAIN)
    view = net.blobs['d'].data if held else None
    seen = []
    net.blobs['d'].data[...] = 1
    for image in range(1, 5):
        net.forward()
        if held:
            view[...] = image + 1
        else:
            net.blobs['d'].data[...] = image + 1
        net.params['c'][0].data[...] = 9
        seen.append(net.blobs['c'].data.flat[0])
        net.params['c'][0].data[...] = 2
    assert seen == [2, 4, 6, 8]


def test_an_input_that_was_refused_changes_nothing_in_silence():
    net = make(CHAIN)
    net.forward(d=np.full((1, 1, 4, 4), 3))
    with pytest.raises(ValueError):
        net.forward(d=np.full((1, 1, 4, 4), 'x'))
    try:
        assert net.blobs['c'].data.flat[0] == 6
    except RuntimeError as error:
        assert "net.keep('c')" in str(error)


SLICED = input_text('d', 2, 4, 3, 3) + '''
layer { name: "s" type: "Slice" bottom: "d" top: "x" top: "y" }
layer { name: "r" type: "ReLU" bottom: "y" top: "y" }'''
for _name, _bottom in (('e', 'x'), ('f', 'y'), ('g', 'f')):
    SLICED += '''
layer { name: "%s" type: "Convolution" bottom: "%s" top: "%s" convolution_param {
  num_output: 2 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }''' % (
        _name, _bottom, _name)


def test_results_of_forward_stay():
    net = make(SLICED)
    x = np.random.RandomState(0).randn(2, 4, 3, 3).astype(np.float32)
    wanted = np.maximum(x[:, 2:], 0)
    result = net.forward(blobs=['x', 'y'], d=x)
    all_blobs = {name: blob.data.copy() for name, blob in net.blobs.items()}
    for y in (result['y'], all_blobs['y'], net.forward_all(blobs=['x', 'y'], d=x)['y']):
        np.testing.assert_array_equal(y, wanted)


DOUBLED = input_text('d', 1, 2) + '''
layer { name: "early" type: "Power" bottom: "d" top: "early" }
layer { name: "twice" type: "Power" bottom: "d" top: "d" power_param { scale: 2 } }'''


def test_an_input_that_a_layer_changes_in_place():
    net = make(DOUBLED)
    net.forward(d=[[1, 2]])
    data = net.blobs['d'].data
    assert data.tolist() == [[2, 4]]
    assert net.forward()['early'].tolist() == [[1, 2]], 'the input stays'
    data[...] = [[2, 4]]  # what it shows already
    assert net.forward()['early'].tolist() == [[2, 4]]
    data[0, 1] = 5
    assert net.forward()['early'].tolist() == [[4, 5]], 'a part is written to what is shown'
    np.copyto(data, 7)
    assert net.forward()['d'].tolist() == [[14, 14]]
    copy = data.copy()
    copy[...] = 0
    product = data * 3
    product[...] = 0
    assert type(product) is np.ndarray
    assert net.forward()['d'].tolist() == [[14, 14]]
    data.fill(14)
    assert net.forward()['d'].tolist() == [[28, 28]]
    assert net.forward_all(d=np.arange(6).reshape(3, 2))['early'].tolist() == [
        [0, 1], [2, 3], [4, 5]]
    net.blobs['d'].reshape(2, 2)
    assert net.forward(d=np.ones((2, 2)))['d'].tolist() == [[2, 2], [2, 2]]


def test_an_input_of_codes_that_a_layer_changes_in_place(tmp_path):
    text = input_text('d', 1, 4) + '''
layer { name: "early" type: "Power" bottom: "d" top: "early" power_param { scale: 0.5 } }
layer { name: "relu" type: "ReLU" bottom: "d" top: "d" }
layer { name: "ip" type: "InnerProduct" bottom: "d" top: "ip"
  inner_product_param { num_output: 2 weight_filler { value: 0.5 } } }'''
    x = np.array([[-1, -0.5, 0.5, 1]])
    observed = make(text)
    observed.quant_mode = 'observe'
    wanted = {name: np.array(value) for name, value in observed.forward(d=x).items()}
    observed.quant_mode = 'passive'
    message = caffe_pb2.NetParameter()
    text_format.Parse(text, message)
    message.data_type = caffe_pb2.CAFFE_INT8_QUANTIZED
    net = caffe.Net(message, caffe.TEST)
    observed.save(str(tmp_path / 'ranges.caffemodel'))
    net.copy_from(str(tmp_path / 'ranges.caffemodel'))
    for _ in range(2):
        result = net.forward(d=x)
        for name, value in wanted.items():
            np.testing.assert_allclose(result[name], value, atol=0.02)


def test_an_input_keeps_its_values_while_a_solver_trains(tmp_path):
    text = input_text('d', 4, 3) + input_text('t', 4, 2) + '''
layer { name: "bn" type: "BatchNorm" bottom: "d" top: "d" }
layer { name: "sc" type: "Scale" bottom: "d" top: "d" scale_param { bias_term: true } }
layer { name: "ip" type: "InnerProduct" bottom: "d" top: "o"
  inner_product_param { num_output: 2 weight_filler { value: 1 } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "o" bottom: "t" top: "loss" }'''
    x = np.random.RandomState(0).randn(4, 3) * 3 + 5
    shown = []
    for frees in (False, True):
        settings = caffe_pb2.SolverParameter(base_lr=0.01, lr_policy='fixed', type='SGD',
                                             snapshot_after_train=False)
        text_format.Parse(text, settings.net_param)
        solver = caffe.get_solver(settings)
        solver.frees_memory = frees
        solver.net.blobs['d'].data[...] = x
        for _ in range(3):
            solver.step(1)
            mean = solver.net.params['bn'][0].data / solver.net.params['bn'][2].data
            np.testing.assert_allclose(mean, x.mean(0), rtol=1e-4)
            shown.append(np.array(solver.net.blobs['d'].data))
    np.testing.assert_allclose(shown[:3], shown[3:], rtol=1e-5, atol=1e-5)
