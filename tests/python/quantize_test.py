"""caffe.quantize and net.histograms."""
import json

import numpy as np
import pytest

import caffe
from caffe import layers as L
from caffe.proto import caffe_pb2


def make_net(shape=(8, 3, 6, 6)):
    net = caffe.NetSpec()
    net.data = L.Input(shape=dict(dim=list(shape)))
    net.conv = L.Convolution(net.data, num_output=8, kernel_size=3,
                             weight_filler=dict(type='xavier'))
    net.relu = L.ReLU(net.conv, in_place=True)
    net.score = L.InnerProduct(net.relu, num_output=5, weight_filler=dict(type='xavier'))
    net.prob = L.Softmax(net.score)
    return net.to_proto()


@pytest.fixture
def net():
    caffe.set_device('cpu')
    caffe.set_random_seed(3)
    return caffe.Net(make_net(), caffe.TEST)


def batches(count, size=8):
    rng = np.random.default_rng(1)
    return [rng.normal(size=(size, 3, 6, 6)).astype(np.float32) for _ in range(count)]


def test_histograms_count_what_was_observed(net):
    net.quant_mode = 'observe'
    data = batches(3)
    for batch in data:
        net.forward(data=batch)
    counts, edges = net.histograms['data']
    expected, _ = np.histogram(np.stack(data).astype(np.float64), edges)
    assert (counts == expected).all()
    assert len(counts) == 2048 and edges[0] == -edges[-1]
    assert set(net.histograms) == set(net.ranges)


def test_the_report_and_the_files(net, tmp_path):
    data = batches(8)
    report = caffe.quantize(net, data, out=str(tmp_path / 'small'), calibrate=3)
    assert (report['calibration_items'], report['held_out_items']) == (24, 40)
    assert report['type'] == 'quant8' and report['float_top1'] is None
    assert report['agreement'] > 85
    rows = {row['layer']: row for row in report['layers']}
    assert rows['conv']['snr'] > 30 and rows['conv']['cosine'] > 0.999
    assert rows['conv']['method'] in ('min_max', 'mse', 'percentile', 'kl')
    with open(tmp_path / 'small.json') as file:
        assert json.load(file) == report
    loaded = caffe.Net(str(tmp_path / 'small.prototxt'), caffe.TEST,
                       weights=str(tmp_path / 'small.caffemodel'))
    same = [loaded.forward(data=batch)['prob'].argmax(axis=1)
            == net.forward(data=batch)['prob'].argmax(axis=1) for batch in data[3:]]
    assert 100 * np.mean(same) == pytest.approx(report['agreement'])


def test_paths_labels_and_short_batches(net, tmp_path):
    net.save(str(tmp_path / 'float.caffemodel'))
    data = batches(5)
    data[-1] = data[-1][:3]
    labelled = [({'data': x}, net.forward(data=np.resize(x, (8, 3, 6, 6)))['prob']
                 .argmax(axis=1)[:len(x)]) for x in data]
    report = caffe.quantize((make_net(), tmp_path / 'float.caffemodel'), labelled, type='int16',
                            method='min_max')
    assert (report['calibration_items'], report['held_out_items']) == (16, 19)
    assert report['float_top1'] == 100 and report['quantized_top1'] == report['agreement']


def test_a_damaged_range_is_first_and_max_drop_repairs_it(net):
    damaged = dict(ranges={'conv': (-0.001, 0.001)})
    report = caffe.quantize(net, batches(8), **damaged)
    assert report['layers'][0]['layer'] == 'conv'
    assert report['layers'][0]['method'] == 'given'
    assert report['agreement'] < 90
    report = caffe.quantize(net, batches(8), max_drop=5, **damaged)
    assert report['within_max_drop'] and report['agreement'] >= 95
    assert report['wider']['conv'] == 'float'


def test_errors(net):
    with pytest.raises(ValueError, match="type is 'int4'"):
        caffe.quantize(net, batches(2), type='int4')
    with pytest.raises(RuntimeError, match="unknown calibration method 'best'"):
        caffe.quantize(net, batches(2), method='best')
    with pytest.raises(RuntimeError, match='no data is left'):
        caffe.quantize(net, batches(1))
    with pytest.raises(RuntimeError, match='there is no data to calibrate with'):
        caffe.quantize(net, [])
    with pytest.raises(TypeError, match='needs a caffe.Net or'):
        caffe.quantize('deploy.prototxt', batches(2))
    with pytest.raises(RuntimeError, match='for input data'):
        caffe.quantize(net, [{'other': 1}] * 2)
    with pytest.raises(ZeroDivisionError):
        caffe.quantize(net, [{'data': Broken()}] * 2)


class Broken:
    def __array__(self, *arguments, **more):
        raise ZeroDivisionError


def test_data_layers_are_used_without_batches():
    caffe.set_device('cpu')
    proto = make_net()
    data = caffe_pb2.LayerParameter(name='data', type='DummyData', top=['data'])
    data.dummy_data_param.shape.add(dim=[8, 3, 6, 6])
    data.dummy_data_param.data_filler.add(type='gaussian')
    proto.layer[0].CopyFrom(data)
    report = caffe.quantize(caffe.Net(proto, caffe.TEST), calibrate=2, type='bfloat16')
    assert (report['calibration_items'], report['held_out_items']) == (16, 16)
    assert report['agreement'] > 80
