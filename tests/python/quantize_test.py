"""caffe.quantize and net.histograms."""
import json

import numpy as np
import pytest
from google.protobuf import text_format

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
    again = caffe.quantize((make_net(), [tmp_path / 'float.caffemodel', tmp_path / 'float.h5']),
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


class Twice(caffe.Layer):
    """y = 2 x + 1; a second top has -x."""

    def reshape(self, bottom, top):
        for blob in top:
            blob.reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        x = np.array(bottom[0].float_data)
        top[0].float_data = 2 * x + 1
        for blob in top[1:]:
            blob.float_data = -x


class Numbers(caffe.Layer):
    """A data layer."""

    def setup(self, bottom, top):
        self.random = np.random.default_rng(5)

    def reshape(self, bottom, top):
        top[0].reshape(8, 3, 6, 6)

    def forward(self, bottom, top):
        top[0].float_data = self.random.normal(size=(8, 3, 6, 6))


def python_net(tops, in_place=False, data=None):
    net = make_net()
    layers = {layer.name: layer for layer in net.layer}
    layer = caffe_pb2.LayerParameter(name='twice', type='Python', bottom=['conv'])
    layer.top.extend(['conv' if in_place else 'twice', 'minus'][:tops])
    layer.python_param.module, layer.python_param.layer = __name__, 'Twice'
    if not in_place:
        layers['score'].bottom[0] = 'twice'
    if tops > 1:
        both = caffe_pb2.LayerParameter(name='both', type='Eltwise', top=['both'])
        both.bottom.extend([layer.top[0], 'minus'])
        layers['score'].bottom[0] = 'both'
    rest = list(net.layer)
    del net.layer[:]
    net.layer.extend(rest[:3] + [layer] + ([both] if tops > 1 else []) + rest[3:])
    if data is not None:
        net.layer[0].CopyFrom(data)
    return net


@pytest.mark.parametrize('kind', ['int8', 'int16', 'half'])
@pytest.mark.parametrize('tops, in_place', [(1, False), (1, True), (2, False)])
def test_layers_in_python_stay_float(kind, tops, in_place, tmp_path):
    caffe.set_device('cpu')
    caffe.set_random_seed(3)
    proto = python_net(tops, in_place)
    net = caffe.Net(proto, caffe.TEST)
    out = str(tmp_path / 'out')
    report = caffe.quantize(net, batches(8), type=kind, out=out, calibrate=3, float_scores=False)
    rows = {row['layer']: row for row in report['layers']}
    assert rows['score']['snr'] > (25 if kind == 'int8' else 55)
    if not in_place:
        assert rows['twice']['type'] == ('half' if kind == 'half' else 'float')
    loaded = caffe.Net(out + '.prototxt', caffe.TEST, weights=out + '.caffemodel')
    assert list(loaded.layer_dict) == [layer.name for layer in proto.layer]
    data = batches(1)[0]
    wanted = net.forward(data=data)['prob']
    assert abs(loaded.forward(data=data)['prob'] - wanted).max() < 0.05


def test_passes_keep_layers_in_python():
    caffe.set_device('cpu')
    model, report = caffe.transform(caffe.Net(python_net(1), caffe.TEST), 'all')
    assert [layer.type for layer in model.layer if layer.name == 'twice'] == ['Python']
    assert report['outputs'][0]['largest_difference'] == 0 < report['outputs'][0]['largest']


def test_a_data_layer_in_python_is_data():
    caffe.set_device('cpu')
    data = caffe_pb2.LayerParameter(name='data', type='Python', top=['data'])
    data.python_param.module, data.python_param.layer = __name__, 'Numbers'
    net = caffe.Net(python_net(1, data=data), caffe.TEST)
    report = caffe.quantize(net, calibrate=3)
    assert report['calibration_items'] == 24
    assert {row['layer']: row for row in report['layers']}['score']['snr'] > 20


def test_values_that_are_not_finite_are_not_called_equal(tmp_path):
    caffe.set_device('cpu')
    net = caffe.NetSpec()
    net.data = L.Input(shape=dict(dim=[4, 2]))
    net.large = L.InnerProduct(net.data, num_output=2, bias_term=False)
    net.zero = L.InnerProduct(net.large, num_output=3, bias_term=False)
    net = caffe.Net(net.to_proto(), caffe.TEST)
    net.params['large'][0].data[...] = 50000  # half ends at 65504
    net.params['zero'][0].data[...] = [1, -1]
    report = caffe.quantize(net, [np.ones((4, 2))] * 4, type='half', out=tmp_path / 'out')
    rows = report['layers']
    assert [(row['blob'], row['not_finite']) for row in rows] == [('large', 16), ('zero', 24),
                                                                  ('data', 0)]
    assert [row['snr'] for row in rows] == [row['cosine'] for row in rows[:2]] + [None]
    page = (tmp_path / 'out.html').read_text()
    assert 'blob zero of layer zero: 24 of 24 values are infinite or NaN' in page
    assert page.count('>NaN<') == 6 and page.count('>equal<') == 1


def test_data_of_nan_in_a_net_with_a_max_pooling_are_named():
    """Such a pooling gives the smallest float."""
    caffe.set_device('cpu')
    spec = caffe.NetSpec()
    spec.data = L.Input(shape=dict(dim=[2, 1, 4, 4]))
    spec.conv = L.Convolution(spec.data, num_output=2, kernel_size=1)
    spec.pool = L.Pooling(spec.conv, kernel_size=2, stride=2)
    spec.score = L.InnerProduct(spec.pool, num_output=3)
    net = caffe.Net(spec.to_proto(), caffe.TEST)
    with pytest.raises(RuntimeError, match="values of its blob 'data' were NaN or infinite"):
        caffe.quantize(net, [np.full((2, 1, 4, 4), np.nan)] * 3)


def test_weights_that_are_codes_already_are_named(net, tmp_path):
    first, second = str(tmp_path / 'first'), str(tmp_path / 'second')
    data = [{'data': batch} for batch in batches(8)]
    assert caffe.quantize(net, data, out=first)['given_weights'] is None
    files = (first + '.prototxt', first + '.caffemodel')
    report = caffe.quantize(files, data, type='int16', out=second)
    assert report['given_weights'] == 'quant8'
    with open(second + '.html') as page:
        assert 'stored as quant8 already: the float net computes with them' in page.read()
    loaded = caffe.Net(files[0], caffe.TEST, weights=files[1])
    again = caffe.quantize(loaded, data, type='int16')
    assert again['given_weights'] == 'quant8'
    assert again['layers'] == report['layers']
    half = str(tmp_path / 'half')
    caffe.quantize(net, data, type='half', out=half)
    report = caffe.quantize((half + '.prototxt', half + '.caffemodel'), data)
    assert report['given_weights'] == 'half'


def test_names_that_a_file_cannot_hold_are_refused_before_the_work():
    caffe.set_device('cpu')
    proto = make_net()
    for layer in proto.layer:
        for names in (layer.bottom, layer.top):
            for i, name in enumerate(names):
                names[i] = 'score_blobs_0_quant' if name == 'conv' else name
    net = caffe.Net(proto, caffe.TEST)
    text = "a file cannot hold the range of blob 'score_blobs_0_quant'"
    with pytest.raises(RuntimeError, match=text):
        caffe.quantize(net, batches(8))
    with pytest.raises(RuntimeError, match=text):
        net.quant_mode = 'observe'
    with pytest.raises(RuntimeError, match=text):
        caffe.transform(net, 'quantize_weights')
    caffe.quantize(net, batches(8), type='half')
    with pytest.raises(RuntimeError, match="a range is given for blob 'conv@conv', but"):
        caffe.quantize(net, batches(8), ranges={'conv@conv': (0, 1)})


def test_weights_of_nan_have_no_codes(net):
    net.params['score'][0].data[2, 3] = np.nan
    with pytest.raises(RuntimeError, match='infinities or NaN in channel 2; it cannot be quantized'):
        caffe.quantize(net, batches(8))
    net.params['score'][0].data[2, 3] = 0
    net.params['score'][1].data[1] = np.inf
    with pytest.raises(RuntimeError, match='holds inf for channel 1; it cannot be quantized'):
        caffe.quantize(net, batches(8))


def sized_net(pooling):
    net = caffe.NetSpec()
    net.data = L.Input(shape=dict(dim=[2, 2, 9, 12]))
    net.conv = L.Convolution(net.data, num_output=4, kernel_size=3, weight_filler=dict(type='xavier'))
    last = net.conv
    if pooling:
        net.pool = last = L.Pooling(net.conv, pool=caffe.params.Pooling.AVE, global_pooling=True)
    net.score = L.InnerProduct(last, num_output=5, weight_filler=dict(type='xavier'))
    net.prob = L.Softmax(net.score)
    return caffe.Net(net.to_proto(), caffe.TEST)


@pytest.mark.parametrize('options', [
    dict(), dict(type='half'), dict(bias_correction=True, rounding='adaround', tune_ranges=True),
    dict(equalize=True, max_drop=0)])
def test_images_of_several_sizes(options):
    caffe.set_device('cpu')
    caffe.set_random_seed(3)
    net = sized_net(pooling=True)
    rng = np.random.default_rng(1)
    sizes = [(1, 9, 12), (2, 13, 8), (1, 12, 10), (2, 9, 12), (1, 8, 8), (2, 20, 9)]
    data = [rng.normal(size=(n, 2, h, w)) for n, h, w in sizes]
    report = caffe.quantize(net, data, **options)
    assert (report['calibration_items'], report['held_out_items']) == (4, 5)
    row, = (row for row in report['layers'] if row['blob'] == 'score')
    assert row['snr'] > 25 and report['agreement'] > 50
    ranges = caffe.quantize(net, data, method='min_max', calibrate=3, type='int16')['layers']
    row, = (row for row in ranges if row['blob'] == 'data')
    assert row['range'] == pytest.approx([min(x.min() for x in data[:3]),
                                          max(x.max() for x in data[:3])], rel=1e-3)


def test_images_of_another_size_for_weights_of_one_size():
    caffe.set_device('cpu')
    net = sized_net(pooling=False)
    text = "images of another size than the net, but parameter 0 of layer 'score' depends on it"
    for shape in ((2, 2, 8, 12), (2, 2, 18, 6)):
        with pytest.raises(RuntimeError, match=text):
            caffe.quantize(net, [np.ones(shape)] * 4)


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


def quantized(net, batches, **options):
    options.setdefault('calibrate', 1)
    return caffe.quantize(net, batches, **options)


@pytest.mark.parametrize('change, cure', [
    (lambda x: x.transpose(0, 2, 3, 1), 'like height x width x channels: give data.transpose'),
    (lambda x: x.transpose(0, 1, 3, 2), r'as many elements: give data.reshape\(2, 3, 8, 10\)'),
    (lambda x: x.reshape(6, 1, 8, 10), r'give data.reshape\(2, 3, 8, 10\)'),
    (lambda x: x.ravel(), r'as many elements: give data.reshape'),
    (lambda x: x[0], r'no axis for the batch: give data\[numpy.newaxis\]'),
    (lambda x: np.concatenate([x, x]), 'more than one batch of 2; give at most 2 items'),
    (lambda x: x[:, :2], 'does not fit blob data'),
])
def test_batches_are_checked_as_forward_checks_them(change, cure):
    net = caffe.Net(make_net((2, 3, 8, 10)), caffe.TEST)
    x = np.zeros((2, 3, 8, 10))
    with pytest.raises(RuntimeError, match='batch 0: data: shape .*' + cure):
        quantized(net, [change(x)] * 2)
    with pytest.raises(RuntimeError, match='batch 1: data: shape'):
        quantized(net, [x, change(x)])


def test_inputs_are_complete_and_have_equally_many_items():
    proto = make_net()
    proto.layer.add(name='more', type='Input', top=['more']).input_param.shape.add(dim=[8, 2])
    net = caffe.Net(proto, caffe.TEST)
    x, more = np.zeros((8, 3, 6, 6)), np.zeros((8, 2))
    for batch, error in (({'data': x}, 'no values for input more; there are some for data'),
                         ({'data': x, 'more': more, 'mor': more}, "'mor', which is not an input"),
                         ({'data': x[:3], 'more': more}, '3 items of input data, but 8 of input')):
        with pytest.raises(RuntimeError, match='batch 0: .*' + error):
            quantized(net, [batch] * 2)
    assert quantized(net, [{'data': x[:3], 'more': more[:3]}] * 2)['held_out_items'] == 3


@pytest.mark.parametrize('labels, error', [
    (np.arange(7) % 5, 'there are 7 of shape 7 .* labels, but the scores .prob. have 8 items'),
    (np.arange(9) % 5, 'there are 9 '),
    (np.eye(5)[np.arange(8) % 5], r'8 positions of 5 classes; give .*labels.argmax\(axis=1\)'),
    (np.full(8, 0.5), 'label 0.5 of item 0 is not an integer; it must be one of 5 classes'),
    ([0] * 7 + [5], r'label 5 of item 7 is not one of 5 classes \(0 to 4\); set num_output'),
    ([0, -2] + [0] * 6, 'label -2 of item 1 is not one of 5 classes.*-1 is an unknown label'),
    ([float('nan')] * 8, 'label nan of item 0 is not an integer'),
])
def test_labels_are_checked(net, labels, error):
    with pytest.raises(RuntimeError, match='batch 0: .*' + error):
        quantized(net, [(x, labels) for x in batches(2)])


def test_unknown_labels_do_not_count(net):
    x = batches(2)
    right = [net.forward(data=b)['prob'].argmax(axis=1) for b in x]
    labels = [int(right[1][0]), int(right[1][1] + 1) % 5, -1, None] + [None] * 4
    report = quantized(net, [(x[0], right[0]), (x[1], labels)])
    assert (report['float_top1'], report['labels'], report['positions']) == (50, 2, 8)
    report = quantized(net, [(b, None) for b in x])
    assert report['float_top1'] is None and report['no_top1'] == 'the data have no labels'
    assert report['agreement'] is not None


def test_batches_of_an_iterator_may_share_a_buffer(net):
    def reused():
        x = np.zeros((8, 3, 6, 6), np.float32)
        for i in range(4):
            x[...] = i + 1
            yield {'data': x}

    report = quantized(net, reused(), calibrate=3, method='min_max')
    assert [row['range'] for row in report['layers'] if row['blob'] == 'data'] == [[0, 3]]


def test_method_dynamic_needs_no_data(net, tmp_path):
    out = str(tmp_path / 'dynamic')
    report = caffe.quantize(net, method='dynamic', out=out)
    assert report['method'] == 'dynamic' and report['layers'] == []
    assert report['calibration_items'] == report['held_out_items'] == 0
    assert report['no_top1'] == 'no data were given to compare with'
    assert min(report['float_ms'], report['dynamic_ms'], report['known_ranges_ms']) > 0
    made = caffe.Net(out + '.prototxt', weights=out + '.caffemodel')
    assert made.quant_mode == caffe.quantizer_mode.CAFFE_QUANT_DYNAMIC and made.ranges == {}
    for factor in (1, 1000):
        x = factor * batches(1)[0]
        wanted, score = (each.forward(data=x, blobs=['score'])['score'] for each in (net, made))
        assert 0 < abs(score - wanted).max() < 0.03 * abs(wanted).max()
    assert caffe.quantize(net, batches(3), method='dynamic')['held_out_items'] == 24
    with pytest.raises(ValueError, match='calibrate is 2, but method dynamic has no calibration'):
        caffe.quantize(net, batches(3), method='dynamic', calibrate=2)
    with pytest.raises(RuntimeError, match='cannot be set after the net was made'):
        net.quant_mode = 'dynamic'


def test_scales_are_powers_of_two(net, tmp_path):
    out = str(tmp_path / 'shifts')
    report = caffe.quantize(net, batches(6), scales='power_of_two', out=out)
    assert report['scales'] == 'power_of_two'
    made = caffe.Net(out + '.prototxt', weights=out + '.caffemodel')
    made.forward(data=batches(1)[0])
    scales = [made.blobs[name].scale for name in ('conv', 'score')]
    assert all(np.frexp(scale)[0] == 0.5 for scale in scales), scales


def test_bad_options(net):
    for value in (-1, float('nan'), float('inf')):
        with pytest.raises(RuntimeError, match='max_drop is .*of at least 0'):
            quantized(net, batches(2), max_drop=value)
    for given in ((1, 0), (0, float('nan'))):
        with pytest.raises(RuntimeError, match=r"the range of blob 'conv' is \(.*smallest"):
            quantized(net, batches(2), ranges={'conv': given})
    for given in ((0, 3, 4), 3, ('a', 1)):
        with pytest.raises(TypeError, match=r"ranges\['conv'\] is .*not a pair of numbers"):
            quantized(net, batches(2), ranges={'conv': given})
    for options, error in ((dict(calibrate=0), 'calibrate is 0; it must be positive'),
                           (dict(held_out=-3), 'held_out is -3; it must be positive'),
                           (dict(held_out=1.5), 'held_out is 1.5, not a whole number'),
                           (dict(max_drop='a'), "max_drop is 'a', not a number"),
                           (dict(ranges=5), 'ranges is 5, not a dict'),
                           (dict(scales='two'), "scales is 'two'; the values are 'any'"),
                           (dict(scores=3), 'scores is 3, not a str')):
        with pytest.raises((TypeError, ValueError), match=error):
            quantized(net, batches(2), **options)
    with pytest.raises(TypeError, match='batches is a dict; give a list'):
        quantized(net, {'data': batches(1)[0]})
    with pytest.raises(RuntimeError, match="no blob 'nothing'"):
        quantized(net, batches(2), scores='nothing')


def parsed(text):
    return text_format.Parse(text, caffe_pb2.NetParameter())


SEGMENTATION = '''
layer { name: "d" type: "HDF5Data" top: "data" top: "label"
        hdf5_data_param { source: "%s" batch_size: 10 } }
layer { name: "score" type: "Convolution" bottom: "data" top: "score"
        convolution_param { num_output: 4 kernel_size: 1 } }
layer { name: "acc" type: "Accuracy" bottom: "score" bottom: "label" top: "acc"
        accuracy_param { ignore_label: 255 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "score" bottom: "label" top: "loss"
        loss_param { ignore_label: 255 } }'''


def segmentation(folder, items):
    """A net whose label at each pixel is the largest channel; a tenth is ignored."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(items, 4, 6, 5)).astype('f4')
    label = x.argmax(axis=1)[:, None].astype('f4')
    label[rng.random(label.shape) < 0.1] = 255
    label[0, 0, 0, 0] = x[0, :, 0, 0].argmin()
    writer = parsed('''
        layer { name: "in" type: "Input" top: "data" top: "label"
                input_param { shape { dim: %d dim: 4 dim: 6 dim: 5 }
                              shape { dim: %d dim: 1 dim: 6 dim: 5 } } }
        layer { name: "out" type: "HDF5Output" bottom: "data" bottom: "label"
                hdf5_output_param { file_name: "%s" } }''' % (items, items, folder / 'data.h5'))
    caffe.Net(writer, caffe.TEST).forward(data=x, label=label)
    (folder / 'list.txt').write_text('%s\n' % (folder / 'data.h5'))
    net = caffe.Net(parsed(SEGMENTATION % (folder / 'list.txt')), caffe.TEST)
    net.params['score'][0].data[...] = np.eye(4).reshape(4, 4, 1, 1)
    return net, x, label


def test_pixels_are_counted_as_the_accuracy_layer_counts_them(tmp_path):
    net, x, label = segmentation(tmp_path, 20)
    report = quantized(net, None, out=tmp_path / 'int8')
    int8 = caffe.Net(str(tmp_path / 'int8.prototxt'), weights=str(tmp_path / 'int8.caffemodel'))
    int8.forward()
    assert report['scores'] == 'score' and report['held_out_items'] == 10
    assert report['labels'] == report['positions'] == (label[10:] != 255).sum()
    assert report['float_top1'] == 100
    assert report['quantized_top1'] == pytest.approx(100 * int8.forward()['acc'], abs=1e-3)
    assert report['agreement'] > 90
    # Deploy form: the axis of the classes is 1, and labels may have any shape of that many numbers.
    deploy = caffe.Net(parsed('''
        layer { name: "in" type: "Input" top: "data"
                input_param { shape { dim: 10 dim: 4 dim: 6 dim: 5 } } }
        layer { name: "score" type: "Convolution" bottom: "data" top: "score"
                convolution_param { num_output: 4 kernel_size: 1 } }'''), caffe.TEST)
    deploy.params['score'][0].data[...] = np.eye(4).reshape(4, 4, 1, 1)
    label[label == 255] = -1
    damaged = quantized(deploy, [(x[:10], label[:10]), (x[10:], label[10:, 0])],
                        ranges={'score': (-0.5, 0.5)}, out=tmp_path / 'damaged')
    int8 = caffe.Net(str(tmp_path / 'damaged.prototxt'),
                     weights=str(tmp_path / 'damaged.caffemodel'))
    same = int8.forward(data=x[10:])['score'].argmax(axis=1) == x[10:].argmax(axis=1)
    assert damaged['agreement'] == pytest.approx(100 * same.mean()) and same.mean() < 0.9
    assert (damaged['positions'], damaged['labels']) == (300, report['labels'])
    with pytest.raises(RuntimeError, match='300 positions, 30 for each item'):
        quantized(deploy, [(x[:10], np.zeros(10))] * 2)


def test_time_steps_are_counted():
    net = caffe.Net(parsed('''
        layer { name: "x" type: "Input" top: "x" top: "cont"
                input_param { shape { dim: 4 dim: 6 dim: 5 } shape { dim: 4 dim: 6 } } }
        layer { name: "l" type: "LSTM" bottom: "x" bottom: "cont" top: "h"
                recurrent_param { num_output: 8 weight_filler { type: "uniform" min: -1 max: 1 } } }
        layer { name: "o" type: "InnerProduct" bottom: "h" top: "o"
                inner_product_param { num_output: 3 axis: 2 weight_filler { type: "xavier" } } }
        '''), caffe.TEST)
    rng = np.random.default_rng(1)
    cont = np.ones((4, 6))
    cont[0] = 0
    data = [{'x': rng.normal(size=(4, 6, 5)), 'cont': cont} for _ in range(4)]
    labelled = [(batch, net.forward(**batch)['o'].argmax(axis=2)) for batch in data]
    report = quantized(net, labelled)
    assert report['float_top1'] == 100 and report['quantized_top1'] == report['agreement'] > 80
    assert (report['calibration_items'], report['held_out_items'], report['labels']) == (6, 18, 72)
    with pytest.raises(RuntimeError, match='a net with recurrent layers takes whole batches'):
        quantized(net, [{name: array[:3] for name, array in data[0].items()}] * 2)


def test_heads_and_nets_without_classes(net):
    heads = parsed('''
        layer { name: "in" type: "Input" top: "data" input_param { shape { dim: 8 dim: 6 } } }
        layer { name: "a" type: "InnerProduct" bottom: "data" top: "a"
                inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
        layer { name: "b" type: "InnerProduct" bottom: "data" top: "b"
                inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }''')
    data = [np.random.default_rng(i).normal(size=(8, 6)) for i in range(2)]
    two = caffe.Net(heads, caffe.TEST)
    assert quantized(two, data)['scores'] == 'b'
    report = quantized(two, [(x, np.full(8, 2)) for x in data], scores='a')
    assert report['scores'] == 'a' and report['float_top1'] is not None
    with pytest.raises(RuntimeError, match='label 3 of item 0 is not one of 3 classes'):
        quantized(two, [(x, np.full(8, 3)) for x in data], scores='a')
    heads.layer.add(name='truth', type='Input', top=['t']).input_param.shape.add(dim=[8, 4])
    heads.layer.add(name='loss', type='EuclideanLoss', bottom=['b', 't'], top=['loss'])
    values = [{'data': x, 't': x[:, :4]} for x in data]
    regression = caffe.Net(heads, caffe.TEST)
    report = quantized(regression, values)
    assert report['scores'] is None and report['agreement'] is None
    assert report['no_top1'] == "layer 'loss' (EuclideanLoss) does not compare classes"
    with pytest.raises(RuntimeError, match='max_drop needs .* does not compare classes'):
        quantized(regression, values, max_drop=1)
    with pytest.raises(RuntimeError, match='there are labels, but the net has no scores'):
        quantized(regression, [(batch, np.zeros(8)) for batch in values])


def test_data_layers_are_read_once(tmp_path, capfd):
    net, _, _ = segmentation(tmp_path, 25)
    with pytest.raises(RuntimeError, match=r"'d' \(HDF5Data\) has 25 records, which are 3 batches "
                                           'of 10: none are left'):
        quantized(net, None, calibrate=10)
    report = caffe.quantize(net)
    assert (report['calibration_items'], report['held_out_items']) == (10, 10)
    report = quantized(net, None, calibrate=2, held_out=4)
    assert (report['calibration_items'], report['held_out_items']) == (20, 5)
    assert '1 of them, not 4, are left' in capfd.readouterr().err


def test_arrays_of_memory_data_are_read_once():
    net = caffe.Net(parsed('''
        layer { name: "m" type: "MemoryData" top: "data" top: "label"
                memory_data_param { batch_size: 4 channels: 3 height: 2 width: 2 } }
        layer { name: "o" type: "InnerProduct" bottom: "data" top: "o"
                inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
        layer { name: "a" type: "Accuracy" bottom: "o" bottom: "label" top: "a" }'''), caffe.TEST)
    net.set_input_arrays(np.ones((12, 3, 2, 2), np.float32), np.zeros(12, np.float32))
    report = quantized(net, None)
    assert (report['calibration_items'], report['held_out_items']) == (4, 4)
    with pytest.raises(RuntimeError, match="'m' .MemoryData. has 12 records, which are 3 batches"):
        quantized(net, None, calibrate=3)


class Repeating(caffe.Layer):
    """Items 0 to 24, and then again."""
    def setup(self, bottom, top):
        self.next = 0

    def reshape(self, bottom, top):
        top[0].reshape(10, 6)

    def forward(self, bottom, top):
        numbers = (self.next + np.arange(10)) % 25
        self.next += 10
        top[0].data[...] = np.sin(numbers[:, None] * np.arange(1, 7))

    def backward(self, top, propagate_down, bottom):
        pass


def test_python_layers_that_begin_again_are_noticed(capfd):
    net = caffe.Net(parsed('''
        layer { name: "p" type: "Python" top: "data"
                python_param { module: "quantize_test" layer: "Repeating" } }
        layer { name: "o" type: "InnerProduct" bottom: "data" top: "o"
                inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }'''),
                    caffe.TEST)
    report = quantized(net, None, held_out=5)
    assert (report['calibration_items'], report['held_out_items']) == (10, 15)
    assert "'p' (Python) begins again after 25 records" in capfd.readouterr().err


def test_a_loss_below_one_item_cannot_be_judged(net, capfd):
    quantized(net, batches(4), max_drop=0.3)
    assert ('max_drop 0.3 cannot be judged: one of 24 held-out items is 4.16667 percentage points'
            in capfd.readouterr().err)
    report = quantized(net, batches(4), max_drop=5)
    assert report['resolution'] == pytest.approx(100 / 24)
    said = capfd.readouterr().err
    assert 'cannot be judged' not in said and 'few held-out items: one item is 4.16667' in said


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
