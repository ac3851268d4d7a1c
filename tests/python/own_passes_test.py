"""Passes of users in Python, which caffe.transform runs by their names."""
import threading

import numpy as np
import pytest
from google.protobuf import text_format

import caffe
from caffe.proto import caffe_pb2

TEXT = """
    layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } } }
    layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
            convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
    layer { name: "copy" type: "Power" bottom: "conv" top: "copy" }
    layer { name: "relu" type: "ReLU" bottom: "copy" top: "relu" }
"""


@pytest.fixture
def net():
    caffe.set_device('cpu')
    return caffe.Net(text_format.Parse(TEXT, caffe_pb2.NetParameter()), caffe.TEST)


def test_a_pass_changes_weights_and_is_compared(net):
    def double(model, notes):
        weights = model.layer[1].blobs[0]
        weights.data[:] = np.multiply(weights.data, 2)
        notes.append('%s is doubled' % model.layer[1].name)

    caffe.register_pass('double', double)
    model, report = caffe.transform(net, passes=['double'])
    assert report['passes'][0]['notes'] == ['conv is doubled']
    assert report['outputs'][0]['relative'] == pytest.approx(1, abs=1e-6)
    assert np.allclose(model.layer[1].blobs[0].data, 2 * net.params['conv'][0].data.ravel())


def test_a_pass_may_return_another_model(net):
    def renamed(model, notes):
        other = caffe_pb2.NetParameter()
        other.CopyFrom(model)
        other.name = 'other'
        return other

    caffe.register_pass('renamed', renamed)
    model, report = caffe.transform(net, passes='renamed,fold')
    assert model.name == 'other' and report['outputs'][0]['largest_difference'] == 0


def test_chains_and_rewrites(net):
    model = caffe_pb2.NetParameter()
    text_format.Parse(TEXT, model)
    assert caffe.find_chains(model, ['Convolution', 'Power', 'ReLU']) == [[1, 2, 3]]
    assert caffe.find_chains(model, ['', lambda layer: layer.name == 'copy']) == [[1, 2]]
    assert caffe.find_chains(model, ['ReLU', 'Power']) == []

    def remove(model, layers, notes):
        why = caffe.remove_copy(model, layers[0])
        notes.append(model.layer[layers[0]].name + (' stays: ' + why if why else ' is removed'))

    caffe.register_rewrite('no_power', ['Power'], remove)
    model, report = caffe.transform(net, passes='no_power')
    assert report['passes'][0]['notes'] == ['copy is removed']
    assert [layer.name for layer in model.layer] == ['data', 'conv', 'relu']
    assert report['outputs'][0]['largest_difference'] == 0
    assert len(model.layer[1].blobs) == 2

    caffe.register_rewrite('no_power', ['Power'], lambda model, layers, notes: model.layer.add())
    with pytest.raises(RuntimeError, match='only changes the layers of its match'):
        caffe.transform(net, passes='no_power')


def test_errors(net):
    def fails(model, notes):
        raise KeyError('mine')

    caffe.register_pass('fails', fails)
    with pytest.raises(KeyError, match='mine'):
        caffe.transform(net, passes='fails')
    caffe.register_pass('fails', lambda model, notes: 5)
    with pytest.raises(TypeError, match="pass 'fails' returned 5"):
        caffe.transform(net, passes='fails')

    def without_weights(model, notes):
        del model.layer[1].blobs[:]

    caffe.register_pass('fails', without_weights)
    with pytest.raises(RuntimeError, match="'conv' .Convolution. has 2 parameters, but the weights have 0"):
        caffe.transform(net, passes='fails')
    with pytest.raises(RuntimeError, match='give yours another name'):
        caffe.register_pass('fold', fails)
    with pytest.raises(RuntimeError, match='cannot have the name'):
        caffe.register_pass('a,b', fails)
    with pytest.raises(TypeError, match='cannot be called'):
        caffe.register_pass('none', None)


def test_passes_run_in_any_thread(net):
    caffe.register_pass('nothing', lambda model, notes: notes.append('ran'))
    reports = []

    def run():
        reports.append(caffe.transform(net, passes='nothing')[1])

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [report['passes'][0]['notes'] for report in reports] == [['ran']] * 3


def test_the_new_passes_of_cortado(net):
    model, report = caffe.transform(net, passes='duplicates,strides,round_levels', levels=16)
    assert [one['name'] for one in report['passes']] == ['duplicates', 'strides', 'round_levels']
    assert len(set(model.layer[1].blobs[0].data)) <= 16
    assert all(one['program'] in ('gzip', 'zstd') and 0 < one['after'] for one in report['packed'])
    with pytest.raises(RuntimeError, match='levels are for the pass round_levels'):
        caffe.transform(net, passes='fold', levels=16)
