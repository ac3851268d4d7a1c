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
    net.save_hdf5(str(tmp_path / 'float.h5'))
    again = caffe.quantize((make_net(), '%s,%s' % (tmp_path / 'float.caffemodel',
                                                   tmp_path / 'float.h5')),
                           labelled, type='int16', method='min_max', out=tmp_path / 'out')
    assert again == report
    with pytest.raises(RuntimeError, match='absent/out'):
        caffe.quantize(net, data, out=str(tmp_path / 'absent/out'))


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


def test_adaround_lowers_the_error_of_sums(net):
    # Neighbours are alike, as in images: for independent values the nearest codes are the best.
    data = [np.cumsum(batch, axis=3) for batch in batches(8)]
    report = caffe.quantize(net, data, rounding='adaround', calibrate=6)
    rows = {row['layer']: row for row in report['layers']}
    assert rows['conv']['rounding'] == 'adaround' and rows['conv']['rounding_gain'] > 0.1
    plain = caffe.quantize(net, data, calibrate=6)
    assert {row['rounding'] for row in plain['layers']} == {None, 'nearest'}
    with pytest.raises(ValueError, match="rounding is 'up'"):
        caffe.quantize(net, data, rounding='up')


def test_out_replaces_no_file_that_the_net_was_read_from(net, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    weights, model = tmp_path / 'net.caffemodel', tmp_path / 'net.prototxt'
    net.save(str(weights))
    model.write_text(str(make_net()))
    before = weights.read_bytes()
    from_files = caffe.Net('net.prototxt', weights='./net.caffemodel')
    copied = caffe.Net(make_net(), caffe.TEST)
    copied.copy_from(str(weights))
    refused = pytest.raises(RuntimeError, match='the result .*net.* would replace the input .*net')
    for source in (('net.prototxt', 'net.caffemodel'), (model, '%s,other' % weights), from_files,
                   copied):
        for out in ('net', str(tmp_path / 'net')):
            with refused:
                caffe.quantize(source, batches(2), out=out)
            if source is not copied:
                with refused:
                    caffe.transform(source, out=out, passes='fold')
    assert weights.read_bytes() == before and model.read_text() == str(make_net())
    caffe.quantize(copied, batches(2), out='new')


# ---- Mode pseudo.

def training_net(data_type=0):
    net = caffe.NetSpec()
    net.data = L.Input(shape=dict(dim=[8, 3, 6, 6]))
    net.label = L.Input(shape=dict(dim=[8]), include=dict(phase=caffe.TRAIN))
    net.conv = L.Convolution(net.data, num_output=8, kernel_size=3,
                             weight_filler=dict(type='xavier'))
    net.relu = L.ReLU(net.conv, in_place=True)
    net.score = L.InnerProduct(net.relu, num_output=5, weight_filler=dict(type='xavier'))
    net.loss = L.SoftmaxWithLoss(net.score, net.label, include=dict(phase=caffe.TRAIN))
    proto = net.to_proto()
    proto.data_type = data_type
    return proto


def test_quantizers_have_modes(net):
    net.quant_mode = 'pseudo'
    assert net.quant_mode == caffe.quantizer_mode.CAFFE_QUANT_PSEUDO == 2
    assert net.pseudo_type == 'int8'
    assert list(net.quantizers) == ['data', 'conv@conv', 'conv_blobs_0_quant', 'conv', 'score',
                                    'score_blobs_0_quant', 'prob']
    conv = net.quantizers['conv']
    conv.mode = 'passive'
    conv.type = 'int16'
    assert repr(net.quantizers['conv']) == "Quantizer('conv', mode='passive', type='int16')"
    assert net.quantizers['score'].mode == 2 and conv.range is None
    net.pseudo_type = caffe.data_type.CAFFE_INT16_QUANTIZED
    assert net.quantizers['score'].type == 'int16'
    net.quant_mode = 'observe'
    assert conv.mode == 1
    net.forward(data=batches(1)[0])
    assert conv.range == net.ranges['conv']
    for attribute, value in (('mode', 'some'), ('type', 'half')):
        with pytest.raises(ValueError, match=value):
            setattr(conv, attribute, value)
    with pytest.raises(ValueError, match="'float'"):
        net.pseudo_type = 'float'


@pytest.mark.parametrize('name', ['int8', 'int16'])
def test_a_net_trained_in_mode_pseudo_runs_in_integers(name, tmp_path):
    caffe.set_device('cpu')
    solver = caffe.get_solver(caffe_pb2.SolverParameter(
        net_param=training_net(), type='Adam', base_lr=0.01, lr_policy='fixed', random_seed=2))
    solver.net.quant_mode = 'pseudo'
    solver.net.pseudo_type = name
    rng = np.random.default_rng(4)
    weights = rng.normal(size=(5, 108))

    def batch():
        data = rng.normal(size=(8, 3, 6, 6)).astype(np.float32)
        return data, (data.reshape(8, -1) @ weights.T).argmax(axis=1)

    losses = []
    for _ in range(150):
        solver.net.blobs['data'].data[...], solver.net.blobs['label'].data[...] = batch()
        losses.append(solver.step(1))
    assert np.mean(losses[-20:]) < 0.8 * np.mean(losses[:20])
    path = str(tmp_path / 'tuned.caffemodel')
    solver.net.save(path)
    pseudo = caffe.Net(training_net(), caffe.TEST, weights=path)
    pseudo.quant_mode = 'pseudo'
    pseudo.pseudo_type = name
    codes = caffe.Net(training_net(3 if name == 'int8' else 4), caffe.TEST, weights=path)
    data = batch()[0]
    real = codes.forward(data=data)['score']
    step = codes.blobs['score'].scale
    assert abs(pseudo.forward(data=data)['score'] - real).max() < 1.01 * step
