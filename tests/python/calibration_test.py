"""The steps of caffe.quantize one by one: caffe.calibration."""
import inspect
import json

import numpy as np
import pytest

import caffe
from caffe import calibration, layers as L

FILES = ('.caffemodel', '.prototxt', '.json', '.html')


def make_net():
    """Two convolutions whose tops a Concat joins, and classes."""
    net = caffe.NetSpec()
    filler = dict(weight_filler=dict(type='xavier'), bias_filler=dict(type='uniform', max=0.2))
    net.data = L.Input(shape=dict(dim=[6, 3, 6, 6]))
    net.left = L.Convolution(net.data, num_output=4, kernel_size=1, **filler)
    net.right = L.Convolution(net.data, num_output=4, kernel_size=3, pad=1, **filler)
    net.both = L.Concat(net.left, net.right)
    net.relu = L.ReLU(net.both, in_place=True)
    net.score = L.InnerProduct(net.relu, num_output=5, **filler)
    net.prob = L.Softmax(net.score)
    return net.to_proto()


def make_recurrent_net():
    net = caffe.NetSpec()
    filler = dict(type='xavier')
    net.data, net.cont = L.Input(shape=dict(dim=[4, 3, 5])), L.Input(shape=dict(dim=[4, 3]))
    net.lstm = L.LSTM(net.data, net.cont,
                      recurrent_param=dict(num_output=6, weight_filler=filler))
    net.score = L.InnerProduct(net.lstm, num_output=4, axis=2, weight_filler=filler)
    return net.to_proto()


def float_net(proto=None):
    caffe.set_device('cpu')
    caffe.set_random_seed(3)
    return caffe.Net(proto or make_net(), caffe.TEST)


def batches(net, count):
    rng = np.random.default_rng(1)
    return [{name: np.float32(np.ones(net.blobs[name].shape) if name == 'cont'
                              else rng.normal(size=net.blobs[name].shape))
             for name in net.inputs} for _ in range(count)]


@pytest.fixture(scope='module')
def observed():
    net = float_net()
    return calibration.observe(calibration.float_net(net), batches(net, 3))


def typed(observed, **changed):
    ranges = calibration.ranges(observed)
    ranges.update(changed)
    return calibration.typed_net(ranges, calibration.weights(observed))


def ranges_in_file(net):
    return {entry.name: (entry.observed_min, entry.observed_max, entry.method)
            for entry in net.weights.quantizer if not entry.name.endswith('_quant')}


@pytest.mark.parametrize('proto,labels,type,choice,preparation', [
    (make_net, False, 'int8', {}, {}),
    (make_net, True, 'int8', dict(method='percentile', percentile=99.0),
     dict(rounding='adaround', bias_correction=True)),
    (make_net, True, 'int16', {}, dict(bias_correction=True)),
    (make_net, False, 'half', {}, {}),
    (make_recurrent_net, False, 'int8', dict(method='mse'), {})])
def test_the_steps_give_the_files_of_quantize(proto, labels, type, choice, preparation, tmp_path):
    net = float_net(proto())
    data = batches(net, 7)
    if labels:
        data = [(batch, np.arange(6) % 5) for batch in data]
    whole = caffe.quantize(net, data, type=type, calibrate=3, out=tmp_path / 'whole', **choice,
                           **preparation)
    source = calibration.float_net(net)
    observed = calibration.observe(source, data[:3])
    ranges = calibration.ranges(observed, type=type, **choice)
    weights = calibration.weights(observed, type=type, **preparation)
    result = calibration.accuracy(calibration.typed_net(ranges, weights), data[3:])
    assert calibration.report(result, out=tmp_path / 'steps') == whole
    for end in FILES:
        assert (tmp_path / ('steps' + end)).read_bytes() == (
            tmp_path / ('whole' + end)).read_bytes(), end
    assert result.agreement == pytest.approx(whole['agreement'])
    assert (result.top1 is None) == (whole['quantized_top1'] is None) == (not labels)
    assert observed.items == whole['calibration_items'] and source.inputs == list(net.inputs)
    for row in whole['layers']:
        if row['snr'] is not None:
            assert result.snr[row['blob']] == pytest.approx(row['snr'])


def test_a_range_that_was_changed_by_hand_is_in_the_files(observed, tmp_path):
    chosen, changed = typed(observed), typed(observed, score=[-8, 8])
    assert chosen.ranges.methods['score'] != 'given' == changed.ranges.methods['score']
    before, after = ranges_in_file(chosen), ranges_in_file(changed)
    assert after.pop('score') == (-8, 8, 'given') and before.pop('score')[2] != 'given'
    assert after == before
    result = calibration.accuracy(changed, batches(float_net(), 5)[3:])
    report = calibration.report(result, out=str(tmp_path / 'hand'))
    row, = [row for row in report['layers'] if row['blob'] == 'score']
    assert row['method'] == 'given' and row['range'] == pytest.approx([-8, 8], abs=16 / 255)
    loaded = caffe.Net(str(tmp_path / 'hand.prototxt'), caffe.TEST,
                       weights=str(tmp_path / 'hand.caffemodel'))
    assert loaded.blobs['score'].scale == pytest.approx(16 / 255, rel=1e-3)
    assert caffe.Net(changed.model, caffe.TEST).blobs.keys() == loaded.blobs.keys()


def test_blobs_of_a_concat_follow_its_top_unless_they_are_given(observed):
    tied = ranges_in_file(typed(observed, **{'both@both': (-9, 9)}))
    assert tied['left'] == tied['right'] == (-9, 9, 'tied')
    given = ranges_in_file(typed(observed, **{'both@both': (-9, 9), 'left': (-1, 1)}))
    assert given['left'] == (-1, 1, 'given') and given['right'] == (-9, 9, 'tied')


def test_what_was_observed_is_what_a_net_observes(observed):
    net = float_net()
    net.quant_mode = 'observe'
    for batch in batches(net, 3):
        net.forward(**batch)
    assert observed.ranges == dict(net.ranges) and observed.items == 18
    assert (observed.histograms['score'][0] == net.histograms['score'][0]).all()


def test_steps_can_be_repeated_and_read_iterators_that_reuse_an_array(observed):
    again = calibration.observe(observed.net, observed.batches)
    assert again.ranges == observed.ranges

    def shared():
        data = {'data': np.empty((6, 3, 6, 6), np.float32)}
        for batch in observed.batches:
            data['data'][...] = batch['data']
            yield data

    assert calibration.observe(observed.net, shared()).ranges == observed.ranges
    arrays = [batch['data'] for batch in observed.batches]
    assert calibration.observe(observed.net, arrays).ranges == observed.ranges


@pytest.mark.parametrize('blob,given,error,message', [
    ('score', (1, 0), RuntimeError, r"range of blob 'score' is \(1, 0\); give its smallest and"),
    ('score', (0, np.inf), RuntimeError, r"range of blob 'score' is \(0, inf\); give .* finite"),
    ('score', 3, TypeError, r"ranges\['score'\] is 3, not a pair of numbers"),
    ('absent', (0, 1), RuntimeError, "given for blob 'absent', but the net has no such blob")])
def test_wrong_ranges_are_named(observed, blob, given, error, message):
    with pytest.raises(error, match=message):
        typed(observed, **{blob: given})


def test_a_range_that_is_missing_is_named(observed):
    ranges = calibration.ranges(observed)
    del ranges['score']
    with pytest.raises(ValueError, match=r"no range of blob 'score'; give one, such as ranges\["):
        calibration.typed_net(ranges, calibration.weights(observed))


def test_steps_in_another_order_are_refused(observed):
    ranges, weights = calibration.ranges(observed), calibration.weights(observed)
    for call, message in [
            (lambda: calibration.observe(float_net(), []), 'calibration.float_net returns'),
            (lambda: calibration.ranges(observed.net), 'calibration.observe returns'),
            (lambda: calibration.weights(ranges), 'calibration.observe returns'),
            (lambda: calibration.typed_net(dict(ranges), weights), 'calibration.ranges returns'),
            (lambda: calibration.typed_net(ranges, ranges), 'calibration.weights returns'),
            (lambda: calibration.accuracy(observed, []), 'calibration.typed_net returns'),
            (lambda: calibration.report(weights), 'calibration.accuracy returns'),
            (lambda: calibration.float_net(3), 'float_net needs a caffe.Net or')]:
        with pytest.raises(TypeError, match=message):
            call()
    wider = calibration.weights(observed, type='int16')
    with pytest.raises(ValueError, match='ranges are for int8, but the weights for int16; make'):
        calibration.typed_net(ranges, wider)
    other = calibration.observe(observed.net, observed.batches[:1])
    with pytest.raises(ValueError, match='two calls of observe; make both from one'):
        calibration.typed_net(ranges, calibration.weights(other))


def test_wrong_values_are_named(observed):
    for call, error, message in [
            (lambda: calibration.observe(observed.net, []), ValueError, 'batches is empty; give'),
            (lambda: calibration.observe(observed.net, {}), TypeError, 'give a list'),
            (lambda: calibration.observe(observed.net, [{'x': 1}]), RuntimeError, 'input data'),
            (lambda: calibration.ranges(observed, type='int4'), ValueError, "type is 'int4'"),
            (lambda: calibration.ranges(observed, method='guess'), RuntimeError, "'guess' .known"),
            (lambda: calibration.ranges(observed, percentile='x'), TypeError, 'percentile'),
            (lambda: calibration.weights(observed, rounding='up'), ValueError, "rounding is 'up'"),
            (lambda: calibration.float_net(float_net(), scores=1), TypeError, 'scores is 1'),
            (lambda: calibration.float_net(float_net(), scores='x'), RuntimeError, "no blob 'x'")]:
        with pytest.raises(error, match=message):
            call()


def test_no_file_that_the_net_was_read_from_is_replaced(tmp_path):
    (tmp_path / 'net.prototxt').write_text(str(make_net()))
    float_net().save(str(tmp_path / 'net.caffemodel'))
    net = calibration.float_net((tmp_path / 'net.prototxt', tmp_path / 'net.caffemodel'))
    data = batches(float_net(), 2)
    result = calibration.accuracy(typed(calibration.observe(net, data[:1])), data[1:])
    with pytest.raises(RuntimeError, match='net.caffemodel'):
        calibration.report(result, out=tmp_path / 'net')
    calibration.report(result, out=tmp_path / 'other')
    assert json.loads((tmp_path / 'other.json').read_text())['calibration_items'] == 6


def test_every_public_name_has_a_docstring():
    names = [name for name, value in vars(calibration).items() if not name.startswith('_')
             and getattr(value, '__module__', '') == 'caffe.calibration']
    assert len(names) == 14
    for name in names:
        assert len(inspect.getdoc(getattr(calibration, name)) or '') > 40, name
    assert str(inspect.signature(calibration.typed_net)) == '(ranges, weights, float_scores=True)'
